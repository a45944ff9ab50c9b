/// Task-local values that a store carries, such as the context of a distributed trace: `StoreOptions.carrying`.
///
///     let options = StoreOptions(carrying: .values(of: ServiceContext.$current))
///     let store = RootStore(initialState: Cart(), options: options, reducer: reduce)
///
/// The values of the caller that dispatches or sends an action are set in its commit (middleware, reducers, mappings
/// and interceptors) and in its effects, and carried on to their actions (G8). Without it, none of these sees the
/// caller's values, except where a `send` is performed in its own task. A child store's last action (`atEnd:`), and
/// effects that the first state begins, have none.
public struct CarriedValues: Sendable {
  let capture: @Sendable () -> Context

  /// The values of one or more task-local variables.
  public static func values<each Value: Sendable>(of locals: repeat TaskLocal<each Value>) -> CarriedValues {
    var all: [CarriedValues] = []
    repeat all.append(CarriedValues(each locals))
    return all.dropFirst().reduce(all.first ?? CarriedValues { .none }) { $0.and($1) }
  }

  init(capture: @escaping @Sendable () -> Context) { self.capture = capture }

  private init<Value: Sendable>(_ local: TaskLocal<Value>) {
    self.init {
      let value = local.get()
      return Context {
        local.withValue(value, operation: $0)
      } restoreAsync: {
        await local.withValue(value, operation: $0)
      }
    }
  }

  func and(_ other: CarriedValues) -> CarriedValues {
    CarriedValues { [capture, captureOther = other.capture] in
      let (outer, inner) = (capture(), captureOther())
      return Context { body in
        outer.restore { inner.restore(body) }
      } restoreAsync: { body in
        await outer.restoreAsync { await inner.restoreAsync(body) }
      }
    }
  }
}

extension CarriedValues {
  @usableFromInline struct Context: Sendable {
    let restore: @Sendable (_ body: () -> Void) -> Void
    let restoreAsync: @Sendable (_ body: @Sendable () async -> Void) async -> Void

    fileprivate static let none = Context(restore: { $0() }, restoreAsync: { await $0() })
  }
}
