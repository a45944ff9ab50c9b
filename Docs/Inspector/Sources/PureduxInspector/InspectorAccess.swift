import Foundation
import HTTPTypes
import Hummingbird

/// Requires the token, and sets security headers on every response.
///
/// The token is in `Authorization: Bearer`, in the cookie, or in `?token=`, which sets the cookie. The cookie is for
/// this site only and hidden from scripts.
struct InspectorAccess<Context: RequestContext>: RouterMiddleware {
  /// The path of the pages, and of the cookie.
  let root: String
  let token: String

  private static var cookie: String { "puredux-inspector" }

  func handle(
    _ request: Request, context: Context, next: (Request, Context) async throws -> Response
  ) async throws -> Response {
    let asked = request.uri.queryParameters["token"].map(String.init)
    let isAllowed = ([Self.bearer(request), asked] + Self.cookies(request)).reduce(false) { isAllowed, given in
      // Compares all of them, so that the time does not depend on the matches.
      given.map { token.isMatched(by: $0) } == true || isAllowed
    }
    var response =
      isAllowed
      ? try await next(request, context)
      : .text(.unauthorized, "A token is needed: in “Authorization: Bearer”, or once in “?token=”.\n")
    if !isAllowed {
      response.headers[.wwwAuthenticate] = "Bearer"
    } else if asked != nil {
      response.headers[.setCookie] =
        "\(Self.cookie)=\(token.percentEncoded); HttpOnly; SameSite=Strict; Path=\(root)"
    }
    // States must not be cached.
    response.headers[.cacheControl] = "no-store"
    response.headers[.contentSecurityPolicy] =
      "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; "
      + "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    response.headers[.xContentTypeOptions] = "nosniff"
    response.headers[.referrerPolicy] = "no-referrer"
    response.headers[.resourcePolicy] = "same-origin"
    return response
  }

  private static func bearer(_ request: Request) -> String? {
    request.headers[.authorization].flatMap { $0.hasPrefix("Bearer ") ? String($0.dropFirst(7)) : nil }
  }

  /// All cookies of this name: servers on other ports may have set one too.
  private static func cookies(_ request: Request) -> [String?] {
    request.headers[values: .cookie].flatMap { $0.split(separator: ";") }
      .map { $0.drop { $0 == " " } }
      .filter { $0.hasPrefix(cookie + "=") }
      .map { $0.dropFirst(cookie.count + 1).removingPercentEncoding }
  }
}

extension Response {
  static func text(_ status: HTTPResponse.Status, _ text: String) -> Response {
    Response(
      status: status, headers: [.contentType: "text/plain; charset=utf-8"],
      body: ResponseBody(byteBuffer: ByteBuffer(string: text)))
  }
}

extension String {
  /// Whether the texts are equal. The time depends only on the length of the given text. An empty token matches
  /// nothing.
  func isMatched(by given: String) -> Bool {
    let (own, given) = (Array(utf8), Array(given.utf8))
    if own.isEmpty { return false }
    var difference = own.count ^ given.count
    for index in given.indices { difference |= Int(given[index] ^ own[index % own.count]) }
    return difference == 0
  }

  /// Encoded for a cookie.
  fileprivate var percentEncoded: String {
    utf8.reduce(into: "") { text, byte in
      let character = Character(Unicode.Scalar(byte))
      if character.isASCII, character.isLetter || character.isNumber || "-_.~".contains(character) {
        text.append(character)
      } else {
        text += "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16, uppercase: true)
      }
    }
  }
}

extension HTTPField.Name {
  fileprivate static let referrerPolicy = HTTPField.Name("Referrer-Policy")!
  fileprivate static let resourcePolicy = HTTPField.Name("Cross-Origin-Resource-Policy")!
}
