import Foundation
import Histories
import Puredux
import Synchronization

/// Records what the store of a process is given, what it answers, and what it applies.
final class RecordedReplica: Sendable {
  private let recorder: Recorder
  private let name: String
  private let hasBegun = Atomic(false)

  init(_ name: String, history path: String) throws {
    self.name = name
    recorder = try Recorder(path: path, process: name)
  }

  /// The reducer: what it begins with is the initial state, or that of a snapshot.
  func enter(_ entry: Entry, in book: inout Book) {
    if !hasBegun.exchange(true, ordering: .relaxed) { recorder.begin(name, after: book.count, hash: book.hash) }
    book.enter(entry)
    recorder.apply([entry.name], at: book.count, on: name, hash: book.hash)
  }

  /// Gives an entry to the store; each second one is told its position, and the state there.
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

  /// Gives an entry to the store, which nobody waits for.
  func dispatch(_ entry: Entry, to store: RootStore<Book, Entry>) {
    _ = recorder.invoke(entry.name, by: "\(entry.writer)")
    _ = store.dispatch(entry)
  }

  /// Reads a state.
  func read(by writer: Int, claiming claim: Claim, _ state: () async throws -> Book) async throws {
    let call = recorder.read(by: "\(writer)", claiming: claim)
    let book = try await state()
    recorder.response(call, .acknowledged, position: book.count, hash: book.hash)
  }
}

/// The files that the processes of a trial record in: in a directory that stays, or in one that goes if nothing is
/// wrong.
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

  /// What was recorded. Where that cannot be explained, says why, and ends the trial.
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
