import Benchmark

let benchmarks: @Sendable () -> Void = {
  commits()
  deliveries()
  sizes()
}
