import Benchmark

let benchmarks: @Sendable () -> Void = {
  commits()
  allocationsBehind()
  deliveries()
  lifting()
  keys()
  stateEffects()
  sizes()
}
