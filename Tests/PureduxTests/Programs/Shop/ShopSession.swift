import Puredux

/// The signed-in user: a feature that knows nothing of the others.
struct Session: Sendable, Equatable {
  var user: String?
  var isSigningIn = false

  enum Action: Sendable, Equatable { case signIn(String), signedIn(String), signOut, expired }

  static let reducer = Reducer<Session, Action> { session, action in
    switch action {
    case .signIn: session.isSigningIn = true
    case .signedIn(let user): session = Session(user: user)
    case .signOut, .expired: session = Session()
    }
  }

  /// A session ends after an hour.
  static func interceptor(signIn: @escaping @Sendable (String) async throws -> String) -> Interceptor<Session, Action> {
    Interceptor(combining: [
      .effects { action, _ in
        guard case .signIn(let name) = action else { return nil }
        return .run { dispatch in dispatch(.signedIn(try await signIn(name))) }
          .id("sign in", .first).catching { _ in .signOut }
      },
      .effects(ofState: .onChange(of: \.user) { $0 == nil ? nil : .run { $0(.expired) }.after(.seconds(3600)) }),
    ])
  }
}
