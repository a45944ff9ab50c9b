import Foundation
import PureduxLog
import PureduxTestSupport
import Testing

/// The behavior of a log in a process with few file descriptors. The limit is set in a process of its own.
@Suite(.timeLimit(.minutes(15))) struct DescriptorTests {
  @Test("trees beyond the limit are refused, so that the process keeps the descriptors that it needs")
  func tooManyTrees() async {
    await #expect(processExitsWith: .success) {
      let limit = try limitDescriptors()
      let directory = try TemporaryDirectory()
      var options = FileLog.Options()
      options.openFiles = Int(limit)
      let log = try FileLog(directory: directory.path, options: options)
      var open: [any OrderedLog] = []
      // More trees than would fit even if no descriptor were inherited.
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
      // The lowest free descriptor.
      let file = try #require(FileHandle(forReadingAtPath: "/dev/null"))
      #expect(file.fileDescriptor <= limit - 64)
      try file.close()
      for tree in open { #expect(try await append(to: tree) == 2) }
      // Once some trees are closed, there is room for another one.
      open = []
      while (try? await append(to: log["\(limit - 1)"])) == nil { await Task.yield() }
      await log.close()
    }
  }

  @Test("the number of open trees is unlimited, and that of their open files is not")
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

  @Test("an acknowledged mark that cannot be written for lack of descriptors is not left behind")
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
      // Two descriptors are left: enough for the tree's directory, and one file of it at a time.
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

/// Sets the limit to 256 more descriptors than this process has inherited from the tests, sockets included. Logs use
/// 192 of these.
///
/// - Returns: The limit.
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
