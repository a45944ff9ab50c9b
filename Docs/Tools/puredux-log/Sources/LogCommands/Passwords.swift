/// The passwords and tokens in the arguments of the tool, which must not be shown.
struct Passwords: Sendable {
  /// The passwords as they are written, with the text around them, and the texts that replace them.
  private var texts: [(text: String, shown: String)] = []

  init(in arguments: [String]) {
    for argument in arguments {
      // nats://user:password@host or nats://token@host, of which there may be several. A password or a token may have
      // an @ of its own.
      for match in argument.matches(of: /(\w*):\/\/((?:(?!:\/\/).)+)@/) {
        let user = match.2.prefix { $0 != ":" }
        if user.endIndex < match.2.endIndex,
          match.1.hasPrefix("postgres") || !user.contains(where: { "@/".contains($0) })
        {
          let password = match.2[match.2.index(after: user.endIndex)...]
          texts.append((":\(password)@", ":***@"))
        } else if !match.1.hasPrefix("postgres") {
          // One slash, because a path that is derived from the address has no more.
          texts.append(("/\(match.2)@", "/***@"))
        }
      }
      // postgresql://host/database?password=…&…, and host=… password='…'
      let isAddress = argument.contains("://")
      for match in argument.matches(of: /(?i:password)\s*=\s*('(?:\\.|[^'])*'?|(?:\\.|\S)+)/) {
        let value = isAddress ? match.1.prefix { $0 != "&" } : match.1
        let start = match.0.dropLast(match.1.count)
        texts.append(("\(start)\(value)", "\(start)***"))
      }
    }
  }

  /// Replaces the passwords in a text.
  func hidden(in text: String) -> String {
    texts.reduce(text) { $0.replacing($1.text, with: $1.shown) }
  }
}
