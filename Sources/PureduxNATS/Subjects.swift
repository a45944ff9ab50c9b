#if NATS
  import PureduxLog

  enum Subjects {
    static func isName(_ text: String) -> Bool {
      !text.isEmpty && text.utf8.count <= 200 && text.utf8.allSatisfy(isPlain)
    }

    /// A key's tree may have names that older versions gave to other spellings.
    static func tokens(of key: String) -> [String] {
      var tokens: [String] = []
      for spelling in [key.composed, key, key.decomposed] {
        if let token = token(of: spelling), !tokens.contains(token) { tokens.append(token) }
      }
      return tokens
    }

    /// One token of a subject and of a bucket's key. Nil if the key is too long.
    static func token(of key: String) -> String? {
      var token = "k"
      for byte in key.utf8 {
        if isPlain(byte) {
          token.unicodeScalars.append(Unicode.Scalar(byte))
        } else {
          token += (byte < 16 ? "=0" : "=") + String(byte, radix: 16)
        }
      }
      return token.utf8.count <= 1001 ? token : nil
    }

    static func token(_ base: String, number: UInt64) -> String { number == 0 ? base : "\(base)/\(number)" }

    static func parts(ofToken token: some StringProtocol) -> (base: String, number: UInt64)? {
      let parts = token.split(separator: "/", omittingEmptySubsequences: false)
      guard parts.count > 1 else { return (String(token), 0) }
      guard parts.count == 2, let number = UInt64(parts[1]) else { return nil }
      return (String(parts[0]), number)
    }

    static func key(ofToken token: String) -> String? {
      guard token.first == "k" else { return nil }
      var bytes: [UInt8] = []
      var rest = token.utf8.dropFirst()
      while let byte = rest.popFirst() {
        if byte == UInt8(ascii: "=") {
          guard let byte = UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16) else { return nil }
          bytes.append(byte)
          rest = rest.dropFirst(2)
        } else {
          bytes.append(byte)
        }
      }
      let key = String(decoding: bytes, as: UTF8.self)
      return self.token(of: key) == token ? key : nil
    }

    static func lastNumber(of subject: some BidirectionalCollection<CChar>) -> UInt64? {
      let digits = subject.reversed().prefix { 0x30...0x39 ~= $0 }
      guard !digits.isEmpty, digits.count < 20 else { return nil }
      return digits.reversed().reduce(0) { $0 &* 10 &+ UInt64($1 - 0x30) }
    }

    struct Place: Equatable {
      var position: UInt64
      /// The number among the consumer's messages.
      var number: UInt64
      /// The number of messages yet to come.
      var pending: UInt64
    }

    /// Parses `$JS.ACK.<stream>.<consumer>.<deliveries>.<position>.<number>.<time>.<pending>`, the subject for an
    /// entry's acknowledgement. With a domain, two more tokens follow `ACK`.
    static func place(in subject: some Sequence<CChar>) -> Place? {
      var (index, part, number) = (0, 0, UInt64(0))
      // The trailing numbers of the tokens 5 to 8 and 10, from zero.
      var numbers: (UInt64, UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0, 0)
      for character in subject {
        if index < acknowledging.count, CChar(bitPattern: acknowledging[index]) != character { return nil }
        index += 1
        switch character {
        case 0x2E:
          switch part {
          case 5: numbers.0 = number
          case 6: numbers.1 = number
          case 7: numbers.2 = number
          case 8: numbers.3 = number
          case 10: numbers.4 = number
          default: break
          }
          part += 1
          number = 0
        case 0x30...0x39: number = number &* 10 &+ UInt64(character - 0x30)
        default: number = 0
        }
      }
      if part == 10 { numbers.4 = number }
      if part == 8 { return Place(position: numbers.0, number: numbers.1, pending: number) }
      return part > 9 ? Place(position: numbers.2, number: numbers.3, pending: numbers.4) : nil
    }

    /// The number after a text. Nil if `other` occurs.
    static func number(behind text: String, in bytes: [UInt8], unless other: String) -> UInt64? {
      guard place(of: other, in: bytes) == nil, let start = place(of: text, in: bytes) else { return nil }
      let digits = bytes[start...].drop { $0 == UInt8(ascii: " ") }.prefix { 0x30...0x39 ~= $0 }
      return digits.isEmpty ? nil : digits.reduce(0) { $0 &* 10 &+ UInt64($1 - 0x30) }
    }

    private static func place(of text: String, in bytes: [UInt8]) -> Int? {
      let text = Array(text.utf8)
      guard bytes.count >= text.count else { return nil }
      for start in 0...(bytes.count - text.count) where bytes[start..<start + text.count].elementsEqual(text) {
        return start + text.count
      }
      return nil
    }

    private static let acknowledging = Array("$JS.ACK.".utf8)

    static func isPlain(_ byte: UInt8) -> Bool {
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"):
        true
      default: false
      }
    }
  }
#endif
