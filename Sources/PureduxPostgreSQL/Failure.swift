#if PostgreSQL
  import PureduxLog

  enum Failure {
    /// Without the location in the server's source.
    static func oneLine(_ text: String) -> String {
      let lines = text.split(whereSeparator: \.isNewline).map { line in
        String(line.drop(while: \.isWhitespace))
      }
      return lines.filter { !$0.hasPrefix("LOCATION:") }.joined(separator: " ")
    }

    /// libpq has the code only in the message, if at all.
    static func connecting(_ message: String) -> LogError {
      // The code follows "FATAL", in the server's language.
      for range in message.ranges(of: ":  ") {
        let code = message[range.upperBound...].prefix(5)
        guard code.count == 5, code.allSatisfy({ $0.isASCII && ($0.isUppercase || $0.isNumber) }),
          message[code.endIndex...].hasPrefix(":")
        else { continue }
        return answered(code: String(code), message: message, detail: nil, hint: nil)
      }
      return .unavailable(message)
    }

    /// See the appendix "PostgreSQL Error Codes" of its manual.
    static func answered(code: String, message: String, detail: String?, hint: String?) -> LogError {
      var text = "PostgreSQL says \(code): \(message)"
      if let detail { text += " (\(detail))" }
      if let hint { text += " \(hint)" }
      switch code {
      case "28P01": return .refused(text + ". Check the user's name and password.")
      case "28000":
        return .refused(text + ". The server's pg_hba.conf decides whether this user and this address may connect.")
      case "3D000": return .refused(text + ". An administrator creates the database.")
      case "42501":
        return .refused(
          text + ". The role lacks a right: let its owner run what `PostgreSQLLog.setupScript(schema:role:)` returns.")
      case "53100", "53200", "54000", "53400": return .full(text)
      case "53300":
        return .unavailable(text + ". Raise max_connections, or put a pooler in between: a log has two connections.")
      case "25006": return .unavailable(text + ". The server is a standby, or is read-only.")
      case "58P01", "XX001", "XX002": return .damaged(position: 0, text)
      case "3F000", "42P01", "42703", "42883":
        return .damaged(position: 0, text + ". The tables are not those of this version, or are gone.")
      case "23505":
        return .damaged(position: 0, text + ". There are entries after the head of the log.")
      default: break
      }
      switch code.prefix(2) {
      // Connections, rollbacks, resources, operators' actions, and other transactions' effects.
      case "08", "40", "53", "55", "57", "25", "": return .unavailable(text)
      case "XX", "58": return .unavailable(text)
      default: return .refused(text)
      }
    }

    static func isOfStartupParameter(_ error: LogError) -> Bool {
      switch error {
      case .unavailable(let text), .refused(let text):
        text.contains("unsupported startup parameter") || text.contains("PostgreSQL says 0A000")
      default: false
      }
    }

    static func isOfRights(_ error: LogError) -> Bool {
      switch error {
      case .unavailable(let text), .refused(let text): text.contains("PostgreSQL says 42501")
      default: false
      }
    }

    /// Perhaps the lock of a commit that waits for a standby.
    static func isLocked(_ error: LogError) -> Bool {
      if case .unavailable(let text) = error { text.contains("PostgreSQL says 55P03") } else { false }
    }

    static func isOfServer(_ error: LogError) -> Bool {
      guard case .unavailable(let text) = error, let range = text.firstRange(of: "PostgreSQL says ") else {
        return true
      }
      let code = text[range.upperBound...].prefix(5)
      return code == "25006" || code.hasPrefix("08") || code.hasPrefix("57P")
    }
  }

  extension LogError {
    var passing: LogError { if case .refused(let text) = self { .unavailable(text) } else { self } }
  }
#endif
