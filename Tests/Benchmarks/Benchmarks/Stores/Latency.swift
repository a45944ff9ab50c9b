import Benchmark
import Puredux

/// The time from `dispatch` until a waiting subscriber has the state, measured many times. Under load, others commit
/// meanwhile.
func latency(_ name: String, isLoaded: Bool) {
  Benchmark(
    Line(name: name, beside: "-").key,
    configuration: .init(
      metrics: [.throughput, Figure.ours], warmupIterations: 0, maxDuration: .seconds(2), maxIterations: 1)
  ) { benchmark in
    let root = makeRoot(Board(items: [0]))
    let store = root.store()
    let taken = await withTaskGroup(of: [Duration].self) { tasks in
      if isLoaded {
        tasks.addTask {
          while (try? await store.send(.add(1))) != nil { await Task.yield() }
          return []
        }
      }
      tasks.addTask {
        let clock = ContinuousClock()
        var taken: [Duration] = []
        var values = store.states(\.items).makeAsyncIterator()
        _ = await values.next()
        for number in 1...2_000 {
          let began = clock.now
          store.dispatch(.set(0, number))
          while let items = await values.next(), items[0] != number {}
          taken.append(clock.now - began)
        }
        await root.shutdown()
        return taken
      }
      var all: [Duration] = []
      for await some in tasks { all += some }
      return all
    }
    for duration in taken {
      benchmark.measurement(
        Figure.ours,
        Int(duration.components.seconds) * 1_000_000_000_000 + Int(duration.components.attoseconds / 1_000_000))
    }
  }
}
