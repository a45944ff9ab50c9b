import AllocationCount
import Foundation
import Output
import Puredux
import Synchronization

/// Many devices in one tree. Each has a stream that follows it, and a producer that changes it at random. Prints how
/// commits per second and memory grow with the number of devices; `Docs/Pictures/devices.py` draws the table.
@main
struct Devices {
  struct Device: Sendable {
    var name: String
    var value = 0
    var changes = 0
  }

  struct Site: Sendable {
    var devices: Keyed<Int, Device>
  }

  struct Reading: Sendable {
    var device: Int
    var value: Int
  }

  final class Counts: Sendable {
    let delivered = Atomic(0)
    let missing = Atomic(0)
  }

  static func main() async throws {
    Output.prepare()
    let counts = CommandLine.arguments.dropFirst().compactMap { Int($0) }
    print("| devices | commits a second | deliveries a second | bytes a device | missing |")
    print("|---|---|---|---|---|")
    for count in counts.isEmpty ? [100, 300, 1_000, 3_000, 10_000] : counts { try await run(count) }
  }

  static func run(_ count: Int) async throws {
    let before = heap_bytes_in_use()
    let root = RootStore<Site, Reading>(
      initialState: Site(devices: Keyed((0..<count).map { ($0, Device(name: "device \($0)")) }))
    ) { site, reading in
      site.devices[reading.device]?.value = reading.value
      site.devices[reading.device]?.changes += 1
    }
    let store = root.store()
    let rounds = max(20, 400_000 / count)
    let clock = ContinuousClock()
    let counts = Counts()
    var bytes = 0.0
    var taken = Duration.zero
    try await withThrowingTaskGroup { tasks in
      for device in 0..<count {
        let states: StateSequence<Device?> = store.scope(to: \.devices, at: device).states()
        tasks.addTask {
          var (elements, last) = (-1, 0)
          for await state in states {
            elements += 1
            if let state { last = state.changes }
          }
          counts.delivered.wrappingAdd(elements, ordering: .relaxed)
          counts.missing.wrappingAdd(abs(rounds - elements) + abs(rounds - last), ordering: .relaxed)
        }
      }
      // All streams wait for their next state.
      try await store.send(Reading(device: -1, value: 0))
      bytes = Double(heap_bytes_in_use() - before) / Double(count)
      let began = clock.now
      await withTaskGroup { producers in
        for device in 0..<count {
          producers.addTask {
            // Each producer keeps its own order; the threads decide the order between producers.
            var random = SystemRandomNumberGenerator()
            for _ in 0..<rounds {
              store.dispatch(Reading(device: device, value: Int.random(in: 0..<1_000, using: &random)))
              if Int.random(in: 0..<4, using: &random) == 0 { await Task.yield() }
            }
          }
        }
      }
      await root.shutdown()
      try await tasks.waitForAll()
      taken = clock.now - began
    }
    let seconds = Double(taken.components.seconds) + Double(taken.components.attoseconds) / 1e18
    let commits = Double(count * rounds) / seconds
    print(
      "| \(count) | \(Int(commits)) | \(Int(Double(counts.delivered.load(ordering: .relaxed)) / seconds)) | \(Int(bytes)) "
        + "| \(counts.missing.load(ordering: .relaxed)) |")
  }
}
