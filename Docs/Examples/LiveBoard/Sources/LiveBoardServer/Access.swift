import Foundation
import HTTPTypes
import Hummingbird

/// Access control, the same for every route.
///
/// Without a token, the server answers on loopback only, and only if `Host` is a loopback address, so that no website
/// reaches it through DNS. With a token, each request needs it: in `Authorization: Bearer`, or in the cookie that
/// `/?token=…` sets. A request that changes something must be JSON and must not come from another origin.
struct Access<Context: RequestContext>: RouterMiddleware {
  let token: String?

  static var cookie: String { "liveboard" }

  func handle(
    _ request: Request, context: Context, next: (Request, Context) async throws -> Response
  ) async throws -> Response {
    let authority = request.head.authority ?? ""
    guard request.headers[.secondHost] == nil else {
      throw HTTPError(.badRequest, message: "A request names one host.")
    }
    if token == nil, !Self.isLoopback(Self.host(of: authority)) {
      throw HTTPError(.misdirectedRequest, message: "This server answers to loopback addresses only.")
    }
    if let origin = request.headers[.origin], origin.authority != authority {
      throw HTTPError(.forbidden, message: "Another website may not do this.")
    }
    if [.post, .put, .patch].contains(request.method), !Self.isJSON(request.headers[.contentType] ?? "") {
      throw HTTPError(.unsupportedMediaType, message: "The body has to be JSON: Content-Type: application/json.")
    }
    guard let token, !Self.isOpen(request.uri.path) else { return try await next(request, context) }
    let asked = request.uri.queryParameters["token"].map(String.init)
    guard
      [Self.bearer(request), Self.cookie(of: request), asked].contains(where: {
        $0.map { $0.isSame(as: token) } == true
      })
    else {
      throw HTTPError(.unauthorized, headers: [.wwwAuthenticate: "Bearer"], message: "A token is needed.")
    }
    var response = try await next(request, context)
    if asked != nil {
      response.headers[.setCookie] = "\(Self.cookie)=\(token); HttpOnly; SameSite=Strict; Path=/"
    }
    return response
  }

  /// Health checks need no token.
  private static func isOpen(_ path: String) -> Bool { path == "/health" || path == "/ready" }

  static func isLoopback(_ host: String) -> Bool {
    if ["localhost", "[::1]", "::1"].contains(host) { return true }
    let numbers = host.split(separator: ".", omittingEmptySubsequences: false)
    return numbers.count == 4 && numbers[0] == "127" && numbers.allSatisfy { UInt8($0) != nil }
      && host.allSatisfy { "0123456789.".contains($0) }
  }

  private static func isJSON(_ type: String) -> Bool {
    type.prefix { $0 != ";" }.trimmingCharacters(in: .whitespaces).lowercased() == "application/json"
  }

  private static func host(of authority: String) -> String {
    if authority.hasPrefix("["), let end = authority.firstIndex(of: "]") { return String(authority[...end]) }
    return String(authority.prefix { $0 != ":" })
  }

  private static func bearer(_ request: Request) -> String? {
    request.headers[.authorization].flatMap { $0.hasPrefix("Bearer ") ? String($0.dropFirst(7)) : nil }
  }

  private static func cookie(of request: Request) -> String? {
    request.headers[.cookie]?.split(separator: ";")
      .map { $0.trimmingCharacters(in: .whitespaces) }
      .first { $0.hasPrefix(Self.cookie + "=") }
      .map { String($0.dropFirst(Self.cookie.count + 1)) }
  }
}

extension String {
  /// Compares in constant time, wherever the first difference is.
  fileprivate func isSame(as other: String) -> Bool {
    let (one, other) = (Array(utf8), Array(other.utf8))
    guard one.count == other.count else { return false }
    return zip(one, other).reduce(0) { $0 | ($1.0 ^ $1.1) } == 0
  }
}

extension HTTPField.Name {
  /// The first `Host` is the request's authority and no header field.
  fileprivate static let secondHost = HTTPField.Name("Host")!
}
