@usableFromInline struct SelectorIdentity: Hashable, Sendable {
  private final class Object: Sendable {}

  private enum Kind: Sendable {
    case object(Object)
    case keyPath(any AnyKeyPath & Sendable)
    case part(any AnyKeyPath & Sendable)
    case key(any Hashable & Sendable)
  }

  private let kind: Kind

  @usableFromInline init() {
    kind = .object(Object())
  }

  @usableFromInline init(key: some Hashable & Sendable) {
    kind = .key(key)
  }

  @usableFromInline static let byKey = SelectorIdentity()

  @usableFromInline init(_ keyPath: any AnyKeyPath & Sendable) {
    kind = .keyPath(keyPath)
  }

  @usableFromInline init(part keyPath: any AnyKeyPath & Sendable) {
    kind = .part(keyPath)
  }

  @usableFromInline static func == (lhs: SelectorIdentity, rhs: SelectorIdentity) -> Bool {
    switch (lhs.kind, rhs.kind) {
    case (.object(let lhs), .object(let rhs)): lhs === rhs
    case (.keyPath(let lhs), .keyPath(let rhs)), (.part(let lhs), .part(let rhs)):
      lhs as AnyKeyPath == rhs as AnyKeyPath
    case (.key(let lhs), .key(let rhs)): AnyHashable(lhs) == AnyHashable(rhs)
    default: false
    }
  }

  @usableFromInline func hash(into hasher: inout Hasher) {
    switch kind {
    case .object(let object): hasher.combine(ObjectIdentifier(object))
    case .keyPath(let keyPath), .part(let keyPath): hasher.combine(keyPath as AnyKeyPath)
    case .key(let key): hasher.combine(AnyHashable(key))
    }
  }
}
