import Benchmark

let benchmarks: @Sendable () -> Void = {
  commits()
  allocationsBehind()
  deliveries()
  sizes()
}
