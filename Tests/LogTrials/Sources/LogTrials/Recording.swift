import Foundation
import Histories
import Puredux
import Synchronization

/// Records a store's calls, results and applied entries.
final class RecordedReplica: Sendable {
  private let recorder: Recorder
  private let name: String
  private let hasBegun = Atomic(false)

  init(_ name: String, history path: String) throws {
    self.name = name
    recorder = try Recorder(path: path, process: name)
  }

  /// The reducer. Its first state is the initial one, or a snapshot's.
  func enter(_ entry: Entry, in book: inout Book) {
    if !hasBegun.exchange(true, ordering: .relaxed) { recorder.begin(name, after: book.count, hash: book.hash) }
    book.enter(entry)
    recorder.apply([entry.name], at: book.count, on: name, hash: book.hash)
  }

  /// Sends an entry. Every second call gets its position and state.
  func send(_ entry: Entry, to store: RootStore<Book, Entry>) async throws(StoreError) {
    let call = recorder.invoke(entry.name, by: "\(entry.writer)")
    do throws(StoreError) {
      if entry.number.isMultiple(of: 2) {
        let (position, hash) = try await store.send(entry) { ($0.count, $0.hash) }
        recorder.response(call, .acknowledged, position: position, hash: hash)
      } else {
        try await store.send(entry)
        recorder.response(call, .acknowledged)
      }
    } catch {
      recorder.response(call, error == .outcomeUnknown ? .unknown : .failed)
      throw error
    }
  }

  func dispatch(_ entry: Entry, to store: RootStore<Book, Entry>) {
    _ = recorder.invoke(entry.name, by: "\(entry.writer)")
    _ = store.dispatch(entry)
  }

  func read(by writer: Int, claiming claim: Claim, _ state: () async throws -> Book) async throws {
    let call = recorder.read(by: "\(writer)", claiming: claim)
    let book = try await state()
    recorder.response(call, .acknowledged, position: book.count, hash: book.hash)
  }
}

/// The processes' records: in a permanent directory, or in one that is removed on success.
struct HistoryFiles {
  let directory: String
  let isKept: Bool

  init(directory: String?) throws {
    isKept = directory != nil
    self.directory = directory ?? FileManager.default.temporaryDirectory.path + "/history-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: self.directory, withIntermediateDirectories: true)
    let files = try FileManager.default.contentsOfDirectory(atPath: self.directory)
    guard files.isEmpty else { throw Problem(text: "\(self.directory) is not empty") }
  }

  struct Problem: Error { let text: String }

  func path(_ name: String) -> String { "\(directory)/\(name).jsonl" }

  /// Judges the records. If no order explains them, prints why and ends the trial.
  func judge() throws -> Verdict {
    let files = try FileManager.default.contentsOfDirectory(atPath: directory).sorted()
    let verdict = try History(paths: files.map { "\(directory)/\($0)" }).checked()
    guard verdict.isCorrect else {
      print("\(verdict)\nThe history is in \(directory).")
      exit(1)
    }
    if !isKept { try FileManager.default.removeItem(atPath: directory) }
    return verdict
  }
}
