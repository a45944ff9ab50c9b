@usableFromInline struct StateEffectSink<Action: Sendable> {
  private let beginWork: (Effect<Action>?, EffectID) -> Void
  private let endWork: (EffectID) -> Void

  init(
    begin: @escaping (Effect<Action>?, EffectID) -> Void, end: @escaping (EffectID) -> Void
  ) {
    beginWork = begin
    endWork = end
  }

  @usableFromInline func begin(_ effect: Effect<Action>?, for id: EffectID) { beginWork(effect, id) }

  @usableFromInline func end(_ id: EffectID) { endWork(id) }

  func map<Part: Sendable>(_ toAction: @escaping @Sendable (Part) -> Action) -> StateEffectSink<Part> {
    StateEffectSink<Part>(begin: { [beginWork] in beginWork($0?.map(toAction), $1) }, end: endWork)
  }

  func map<Part: Sendable>(
    of element: some Hashable & Sendable, _ toAction: @escaping @Sendable (Part) -> Action
  ) -> StateEffectSink<Part> {
    StateEffectSink<Part>(
      begin: { [beginWork] in beginWork($0?.map(toAction).of(element: element), $1.of(element: element)) },
      end: { [endWork] in endWork($0.of(element: element)) })
  }
}
