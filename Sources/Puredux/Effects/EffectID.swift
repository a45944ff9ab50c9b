/// Identifies an effect within its store: a value and its type, because values of different types may be equal as
/// `AnyHashable`.
///
/// SAFETY: it holds a `Sendable` value, although `AnyHashable` does not record that.
@usableFromInline struct EffectID: Hashable, @unchecked Sendable, CustomStringConvertible {
  private let type: ObjectIdentifier
  private let value: AnyHashable

  @usableFromInline static let only = EffectID(0)

  @usableFromInline init<Value: Hashable & Sendable>(_ value: Value) {
    type = ObjectIdentifier(Value.self)
    self.value = AnyHashable(value)
  }

  func of(element: some Hashable & Sendable) -> EffectID { EffectID(OfElement(element: EffectID(element), id: self)) }

  @usableFromInline var description: String { "\(value)" }

  private struct OfElement: Hashable, Sendable, CustomStringConvertible {
    let element: EffectID
    let id: EffectID

    var description: String { "\(id)[\(element)]" }
  }
}
