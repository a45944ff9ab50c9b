/// Task-local values that a store carries along, such as the context of a distributed trace: what `carrying:` takes.
///
///     let store = RootStore(initialState: Cart(), carrying: .values(of: ServiceContext.$current), reducer: reduce)
///
/// The values that there are where an action is dispatched or sent are there again in its commit (its middleware,
/// reducers, mappings and interceptors), in its effects, and in the commits and effects of what these dispatch (G8).
/// Without it none of them sees anything of the dispatcher's but where a `send` is done in its own task.
public struct CarriedValues: Sendable {
  /// The values where this is called.
  let capture: @Sendable () -> CarriedContext

  /// Those of one or several task-local variables.
  public static func values<each Value: Sendable>(of locals: repeat TaskLocal<each Value>) -> CarriedValues {
    var all: [CarriedValues] = []
    repeat all.append(CarriedValues(each locals))
    return all.dropFirst().reduce(all.first ?? CarriedValues { .none }) { $0.and($1) }
  }

  private init(capture: @escaping @Sendable () -> CarriedContext) { self.capture = capture }

  private init<Value: Sendable>(_ local: TaskLocal<Value>) {
    self.init {
      let value = local.get()
      return CarriedContext {
        local.withValue(value, operation: $0)
      } restoreAsync: {
        await local.withValue(value, operation: $0)
      }
    }
  }

  private func and(_ other: CarriedValues) -> CarriedValues {
    CarriedValues { [capture, captureOther = other.capture] in
      let (outer, inner) = (capture(), captureOther())
      return CarriedContext { body in
        outer.restore { inner.restore(body) }
      } restoreAsync: { body in
        await outer.restoreAsync { await inner.restoreAsync(body) }
      }
    }
  }
}

/// The values that were there at some time.
@usableFromInline struct CarriedContext: Sendable {
  /// Does something with the values in their place.
  let restore: @Sendable (_ body: () -> Void) -> Void
  let restoreAsync: @Sendable (_ body: @Sendable () async -> Void) async -> Void

  fileprivate static let none = CarriedContext(restore: { $0() }, restoreAsync: { await $0() })
}
