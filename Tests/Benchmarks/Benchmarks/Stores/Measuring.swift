import Benchmark
import Foundation
import Synchronization

/// One line of the table: an operation of the library, an alternative to it, and the highest ratio of their costs.
///
/// Each iteration measures both, one right after the other, so that disturbances affect both.
struct Line: Sendable {
  let name: String
  /// The alternative.
  let beside: String
  /// The highest ratio allowed.
  var bound: Double?
  /// The unit of the figures: nanoseconds, bytes or counts.
  var unit = "ns"

  /// The line's name in the harness. `Ratios` takes it apart.
  var key: String {
    let number = lineNumber.add(1, ordering: .relaxed).newValue
    return "\(number) | \(name) | \(beside) | \(bound.map { "\($0)" } ?? "-") | \(unit)"
  }
}

private let lineNumber = Atomic(0)

/// The figures of a line, as whole thousandths.
enum Figure {
  static let ours = BenchmarkMetric.custom("ours", polarity: .prefersSmaller, useScalingFactor: false)
  static let theirs = BenchmarkMetric.custom("theirs", polarity: .prefersSmaller, useScalingFactor: false)
  static let ratio = BenchmarkMetric.custom("ratio", polarity: .prefersSmaller, useScalingFactor: false)
}

/// Registers a line whose two figures a closure returns.
func measure(
  _ line: Line, iterations: Int = 9, _ figures: @escaping @Sendable () async throws -> (ours: Double, theirs: Double)
) {
  Benchmark(
    line.key,
    configuration: .init(
      metrics: [.throughput, Figure.ours, Figure.theirs, Figure.ratio], warmupIterations: 1, maxDuration: .seconds(4),
      maxIterations: iterations)
  ) { benchmark in
    let (ours, theirs) = try await figures()
    benchmark.measurement(Figure.ours, Int(ours * 1000))
    benchmark.measurement(Figure.theirs, Int(theirs * 1000))
    benchmark.measurement(Figure.ratio, Int(ours / max(theirs, 0.001) * 1000))
  }
}

/// Registers a line that compares the times of two closures for `operations` operations.
func compare(
  _ line: Line, operations: Int, iterations: Int = 9, ours: @escaping @Sendable () async throws -> Void,
  theirs: @escaping @Sendable () async throws -> Void
) {
  measure(line, iterations: iterations) {
    (try await nanoseconds(operations, ours), try await nanoseconds(operations, theirs))
  }
}

/// The time per operation, on the thread pool.
func nanoseconds(_ operations: Int, _ body: @escaping @Sendable () async throws -> Void) async throws -> Double {
  try await Task.detached {
    let clock = ContinuousClock()
    let began = clock.now
    try await body()
    let taken = clock.now - began
    return (Double(taken.components.seconds) * 1e9 + Double(taken.components.attoseconds) / 1e9) / Double(operations)
  }.value
}

func concurrently(_ count: Int, _ body: @escaping @Sendable () async throws -> Void) async throws {
  try await withThrowingTaskGroup { tasks in
    for _ in 0..<count { tasks.addTask { try await body() } }
    try await tasks.waitForAll()
  }
}

/// The processor time of all threads, per operation.
func processorNanoseconds(_ operations: Int, _ body: @escaping @Sendable () async throws -> Void) async throws -> Double
{
  func now() -> Double {
    var time = timespec()
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
    return Double(time.tv_sec) * 1e9 + Double(time.tv_nsec)
  }
  return try await Task.detached {
    let began = now()
    try await body()
    return (now() - began) / Double(operations)
  }.value
}

func onThreads(_ count: Int, _ body: @escaping @Sendable () -> Void) async {
  await withTaskGroup { tasks in
    for _ in 0..<count {
      tasks.addTask {
        await withCheckedContinuation { continuation in
          Thread.detachNewThread {
            body()
            continuation.resume()
          }
        }
      }
    }
  }
}

final class PlatformMutex<Value: Sendable>: @unchecked Sendable {
  private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
  private var value: Value

  init(_ value: Value) {
    self.value = value
    pthread_mutex_init(mutex, nil)
  }

  deinit {
    pthread_mutex_destroy(mutex)
    mutex.deallocate()
  }

  func withLock(_ body: (inout Value) -> Void) {
    pthread_mutex_lock(mutex)
    body(&value)
    pthread_mutex_unlock(mutex)
  }
}
