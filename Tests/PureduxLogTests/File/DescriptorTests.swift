import Foundation
import PureduxLog
import PureduxTestSupport
import Testing

/// What a log does where the process has few file descriptors. The limit is that of a process of its own.
@Suite(.timeLimit(.minutes(15))) struct DescriptorTests {
  @Test("trees that are too many are refused, and leave the process the descriptors that it needs")
  func tooManyTrees() async {
    await #expect(processExitsWith: .success) {
      let limit = try limitDescriptors()
      let directory = try TemporaryDirectory()
      var options = FileLog.Options()
      options.openFiles = Int(limit)
      let log = try FileLog(directory: directory.path, options: options)
      var open: [any OrderedLog] = []
      // More than there could be if no descriptor were inherited.
      for number in 0..<limit {
        let tree = log["\(number)"]
        do {
          #expect(try await append(to: tree) == 1)
          open.append(tree)
        } catch LogError.unavailable(let text) {
          #expect(text.hasSuffix("Too many open files"))
        }
      }
      #expect(open.count > 50 && open.count < Int(limit))
      // The lowest one that there is.
      let file = try #require(FileHandle(forReadingAtPath: "/dev/null"))
      #expect(file.fileDescriptor <= limit - 64)
      try file.close()
      for tree in open { #expect(try await append(to: tree) == 2) }
      // Where some go, there is room for another one.
      open = []
      while (try? await append(to: log["\(limit - 1)"])) == nil { await Task.yield() }
      await log.close()
    }
  }

  @Test("trees that are open are as many as one likes, and the files that they have open are not")
  func manyTrees() async {
    await #expect(processExitsWith: .success) {
      let limit = try limitDescriptors()
      let before = try descriptors()
      let directory = try TemporaryDirectory()
      var options = FileLog.Options()
      (options.syncs, options.preallocatedBytes) = (false, 0)
      let log = try FileLog(directory: directory.path, options: options)
      let trees = (0..<400).map { log["\($0)"] }
      for round in 1...2 as ClosedRange<UInt64> {
        for (number, tree) in trees.enumerated() {
          #expect(try await append(to: tree) == round)
          if number % 100 == 99 { #expect(try descriptors() <= before + Int(limit) / 4 + 16) }
        }
      }
      for tree in trees { #expect(try await tree.head() == 2) }
      for tree in trees.suffix(50) {
        for try await records in tree.records(after: 0) where records.last?.position == 2 { break }
      }
      #expect(try descriptors() <= before + Int(limit) / 4 + 16)
      await log.close()
      #expect(try descriptors() <= before + 16)
    }
  }

  @Test("a note of what was acknowledged that cannot be written, as there are few descriptors left, is not left behind")
  func noteThatCannotBeWritten() async {
    await #expect(processExitsWith: .success) {
      let limit = try limitDescriptors()
      let directory = try TemporaryDirectory()
      let first = try FileLog(directory: directory.path)
      #expect(try await append(to: first["tree"]) == 1)
      await first.close()
      let note = directory.path + "/=tree/acknowledged"
      #expect(FileManager.default.fileExists(atPath: note))
      let log = try FileLog(directory: directory.path)
      let (tree, beside) = (log["tree"], log["beside"])
      #expect(try await append(to: beside) == 1)
      // Two are left: enough for the tree's directory, and one file of it at a time.
      var taken: [FileHandle] = []
      while taken.last?.fileDescriptor ?? 0 < limit - 67 {
        taken.append(try #require(FileHandle(forReadingAtPath: "/dev/null")))
      }
      #expect(try await append(to: tree) == 2)
      #expect(!FileManager.default.fileExists(atPath: note))
      taken = []
      #expect(try await append(to: tree) == 3)
      #expect(FileManager.default.fileExists(atPath: note))
      #expect(try await append(to: beside) == 2)
      await log.close()
    }
  }
}

private func descriptors() throws -> Int { try FileManager.default.contentsOfDirectory(atPath: "/dev/fd").count }

private func append(to log: any OrderedLog) async throws -> UInt64 {
  try await withCheckedThrowingContinuation { continuation in
    log.append([1]) { continuation.resume(with: $0.mapError { $0 as any Error }) }
  }
}

/// To 256 beyond those that have come from the process of the tests, whose sockets are inherited: logs use 192 of
/// these.
/// Returns how many there may be.
private func limitDescriptors() throws -> Int32 {
  #if canImport(Glibc)
    let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
  #else
    let resource = RLIMIT_NOFILE
  #endif
  let inherited = try FileManager.default.contentsOfDirectory(atPath: "/dev/fd").compactMap(rlim_t.init)
  let count = try #require(inherited.max()) + 1 + 256
  var limit = rlimit(rlim_cur: count, rlim_max: count)
  try #require(unsafe setrlimit(resource, &limit) == 0)
  return Int32(count)
}
