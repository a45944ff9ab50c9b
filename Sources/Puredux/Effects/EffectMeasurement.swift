final class EffectMeasurement: Sendable {
  private let instrument: TreeInstrument
  private let id: String?
  private let store: StoreID
  private let number: Int
  /// The first outcome: of an effect of several parts, one may fail while the others go on.
  private let outcome = LockedValue<EffectEvent.Outcome?>(nil)

  init(by instrument: TreeInstrument, id: String?, of store: StoreID) {
    self.instrument = instrument
    self.id = id
    self.store = store
    number = instrument.nextEffectNumber()
  }

  /// Reports the end within the instrument's `run`, so that a span, for example, can record the outcome.
  func run(_ work: @Sendable () async -> Void, isCancelled: @Sendable () -> Bool) async {
    let beginning = instrument.now
    let begun = event(.began)
    instrument.instrument.effect(begun, in: instrument.store)
    await instrument.instrument.run(begun, in: instrument.store) {
      await work()
      let outcome = outcome.withLock { $0 } ?? (isCancelled() ? .cancelled : .finished)
      let taken = instrument.elapsed(since: beginning)
      instrument.instrument.effect(event(.ended(outcome, after: taken)), in: instrument.store)
    }
  }

  func note(_ outcome: EffectEvent.Outcome) { self.outcome.withLock { $0 = $0 ?? outcome } }

  func retries(_ error: any Error, after delay: Duration) {
    instrument.instrument.effect(event(.retried(error, after: delay)), in: instrument.store)
  }

  private func event(_ kind: EffectEvent.Kind) -> EffectEvent {
    EffectEvent(kind: kind, number: number, id: id, store: store)
  }
}
