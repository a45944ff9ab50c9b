import Puredux
import PureduxLogTesting
import PureduxTestSupport
import Testing

@testable import PureduxDirectory

/// Makers of stores that need each other.
@Suite(.timeLimit(.minutes(15))) struct StoreDirectoryCycleTests {
  typealias Directory = StoreDirectory<Int, Int, Int>

  /// Directories that their makers can ask.
  final class Directories: Sendable {
    private let all = LockedValue<[Directory]>([])

    subscript(index: Int) -> Directory { all.withLock { $0[index] } }

    func add(_ make: @escaping @Sendable (Int) async throws -> RootStore<Int, Int>) -> Directory {
      let directory = Directory(clock: ManualClock(), make: make)
      all.withLock { $0.append(directory) }
      return directory
    }

    func end() { all.withLock { $0 = [] } }
  }

  static func store(_ key: Int) -> RootStore<Int, Int> { RootStore(initialState: key) { $0 += $1 } }

  /// How a maker asks.
  enum Asking: CaseIterable {
    case directly, childTask, task

    func open(_ key: Int, of directory: Directory) async throws -> Int {
      switch self {
      case .directly: return try await directory.withStore(key) { await $0.state }
      case .childTask:
        async let state = directory.withStore(key) { await $0.state }
        return try await state
      case .task: return try await Task { try await directory.open(key).store.state }.value
      }
    }
  }

  func keys(_ error: any Error) throws -> [Int] {
    try #require(error as? StoreDirectoryCycle).keys.map { try #require($0 as? Int) }
  }

  func keys<Result>(_ task: Task<Result, any Error>) async throws -> [Int] {
    do {
      _ = try await task.value
      Issue.record("It was made.")
      return []
    } catch {
      return try keys(error)
    }
  }

  @Test(arguments: Asking.allCases)
  func `who asks for the store that it is making is told, and can go on without it`(asking: Asking) async throws {
    let told = Record<[Int]>()
    let directories = Directories()
    let directory = directories.add { [self] key in
      do {
        _ = try await asking.open(key, of: directories[0])
      } catch {
        told.add(try keys(error))
      }
      return Self.store(key)
    }
    #expect(try await directory.withStore(1) { await $0.state } == 1)
    #expect(told.all == [[1]])
    await directory.shutdown()
    directories.end()
  }

  @Test(arguments: Asking.allCases)
  func `makers that ask for each other's store are told, like all who wait, and who asks later tries again`(
    asking: Asking
  ) async throws {
    let (begun, isMended) = (Record<Int>(), Flag())
    let directories = Directories()
    let directory = directories.add { key in
      if !isMended.isRaised {
        begun.add(key)
        await begun.untilCount(2)
        _ = try await asking.open(3 - key, of: directories[0])
      }
      return Self.store(key)
    }
    let tasks = (0..<6).map { index in Task { try await directory.open(1 + index % 2) } }
    for task in tasks { #expect(try await keys(task).sorted() == [1, 2]) }
    isMended.raise()
    for key in 1...2 { #expect(try await directory.withStore(key) { await $0.state } == key) }
    await directory.shutdown()
    directories.end()
  }

  @Test(arguments: Asking.allCases)
  func `makers of several directories are told likewise, and the error names the keys in order`(asking: Asking)
    async throws
  {
    let directories = Directories()
    let texts = StoreDirectory<String, Int, Int>(clock: ManualClock()) { _ in
      Self.store(try await asking.open(2, of: directories[1]))
    }
    let first = directories.add { key in
      let handle = try await texts.open("a")
      return Self.store(await handle.store.state)
    }
    _ = directories.add { _ in Self.store(try await asking.open(1, of: directories[0])) }
    let error = await #expect(throws: StoreDirectoryCycle.self) { try await first.open(1) }
    #expect(error?.keys.map { AnyHashable($0) } == [2, 1, "a"])
    #expect(error.map { "\($0)" } == "Stores that are needed to make each other: 2, 1, a.")
    for index in 0..<2 { await directories[index].shutdown() }
    await texts.shutdown()
    directories.end()
  }

  @Test func `what several need alike is no cycle, nor what a maker does not wait for any more`() async throws {
    let (begun, hasGivenUp) = (Gate(), Gate())
    let directories = Directories()
    let directory = directories.add { key in
      switch key {
      case 1:
        async let second = directories[0].withStore(2) { await $0.state }
        async let third = directories[0].withStore(3) { await $0.state }
        return Self.store(try await second + third)
      case 2, 3: return Self.store(try await directories[0].withStore(4) { await $0.state })
      case 5:
        let asking = Task { try await directories[0].open(6) }
        await begun.wait()
        asking.cancel()
        _ = await asking.result
        hasGivenUp.open()
        return Self.store(5)
      case 6:
        begun.open()
        await hasGivenUp.wait()
        return Self.store(try await directories[0].withStore(5) { await $0.state } + 1)
      default: return Self.store(key)
      }
    }
    #expect(try await directory.withStore(1) { await $0.state } == 8)
    #expect(try await directory.withStore(5) { await $0.state } == 5)
    #expect(try await directory.withStore(6) { await $0.state } == 6)
    await directory.shutdown()
    directories.end()
  }

  @Test func `what a maker has left behind may ask for the store that was made`() async throws {
    let (isMade, states) = (Gate(), Record<Int?>())
    let directories = Directories()
    let directory = directories.add { key in
      Task {
        await isMade.wait()
        states.add(try? await directories[0].withStore(key) { await $0.state })
      }
      return Self.store(key)
    }
    try await directory.withStore(1) { try await $0.send(1) }
    isMade.open()
    await states.untilCount(1)
    #expect(states.all == [2])
    await directory.shutdown()
    directories.end()
  }

  /// Each asks for some of the others, so that many cycles arise at the same time, in different directories.
  @Test(arguments: (0..<8).map { _ in UInt64.random(in: 0 ... .max) })
  func `whoever asks for whom, everybody has an answer`(seed: UInt64) async throws {
    let directories = Directories()
    for index in 0..<3 {
      _ = directories.add { key in
        var random = SeededGenerator(seed: seed &+ UInt64(index * 100 + key))
        for _ in 0..<Int.random(in: 0...2, using: &random) {
          let asked = Int.random(in: 0..<6, using: &random)
          let asking = Asking.allCases.randomElement(using: &random) ?? .directly
          _ = try await asking.open(asked, of: directories[Int.random(in: 0..<3, using: &random)])
          await Task.yield()
        }
        return Self.store(key)
      }
    }
    let answers = await withTaskGroup { tasks in
      for index in 0..<3 {
        for key in 0..<6 {
          tasks.addTask { await Task { try await directories[index].open(key) }.result }
        }
      }
      return await tasks.reduce(into: []) { $0.append($1) }
    }
    for case .failure(let error) in answers { #expect(error is StoreDirectoryCycle, "seed \(seed)") }
    #expect(answers.count == 18)
    for index in 0..<3 { await directories[index].shutdown() }
    directories.end()
  }
}
