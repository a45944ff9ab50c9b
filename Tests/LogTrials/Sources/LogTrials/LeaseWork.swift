import Foundation
import Histories
import Puredux
import PureduxLog
import Synchronization

/// Jobs to be done once each by the holder of a lease, while holders are paused for longer than the lease.
enum LeaseWork {
  struct Job: Codable, Sendable, Hashable, Identifiable { let id: Int }

  /// A job, and the lease's term in which it is done.
  struct Work: Sendable, Hashable, Identifiable {
    let job: Job
    let term: UInt64
    var id: Int { job.id }
  }

  enum Action: Codable, Sendable {
    case lease(Lease.Claim)
    case order(Job)
    case done(Job, term: UInt64, by: UInt64)
    case end

    /// The actions' names in a history. Claims have none, as no caller learns of them.
    var names: [String] {
      switch self {
      case .lease: []
      case .order(let job): ["order-\(job.id)"]
      case .done(let job, let term, let replica): ["done-\(job.id)-\(term)-\(replica)"]
      case .end: ["end"]
      }
    }
  }

  struct Jobs: Codable, Sendable {
    var lease = Lease()
    var pending: [Job] = []
    /// The number of times that each job's work counted.
    var counted: [Int: Int] = [:]
    /// The number of reports from an earlier term.
    var late = 0
    var isOver = false
    var position = 0
    var hash: UInt64 = 0

    mutating func enter(_ action: Action) {
      switch action {
      case .lease(let claim): lease.apply(claim)
      case .order(let job): pending.append(job)
      case .done(let job, let term, _):
        if term == lease.term {
          pending.removeAll { $0 == job }
          counted[job.id, default: 0] += 1
        } else {
          late += 1
        }
      case .end: isOver = true
      }
      position += 1
      for byte in action.names.joined().utf8 { hash = (hash ^ UInt64(byte)) &* 1_099_511_628_211 }
      for number in [lease.term, lease.renewals, UInt64(pending.count), UInt64(late)] {
        hash = (hash ^ number) &* 1_099_511_628_211
      }
    }
  }

  static let duration = Duration.seconds(1)

  /// Opens replicas in this process, and creates and does jobs until it is told to stop. After the last entry it prints
  /// the results.
  static func run(_ log: any OrderedLog, as number: Int, replicas: Int, history: String) async throws {
    let recorder = try Recorder(path: "\(history)-\(number).jsonl", process: "jobs \(number)")
    var stores: [RootStore<Jobs, Action>] = []
    for index in 0..<replicas { stores.append(try await open(log, as: "replica \(number)-\(index)", recorder)) }
    let isStopped = Flag()
    Thread.detachNewThread { [store = stores[0]] in
      while let line = readLine() {
        if line == "stop" { isStopped.raise() }
        guard line == "end" else { continue }
        _ = recorder.invoke("end", by: "end")
        store.dispatch(.end)
      }
      exit(0)
    }
    await withTaskGroup { tasks in
      for (index, store) in stores.enumerated() {
        tasks.addTask { await order(from: number * 10 + index, at: store, recorder, until: isStopped) }
        tasks.addTask {
          for await jobs in store.states() where jobs.isOver && jobs.pending.isEmpty {
            let doubled = jobs.counted.values.count { $0 > 1 }
            return tell(
              "over \(jobs.counted.count) counted \(doubled) twice \(jobs.late) late \(jobs.lease.term) terms")
          }
        }
      }
      await tasks.waitForAll()
    }
    tell("ended")
    while true { try await Task.sleep(for: .seconds(60)) }
  }

  private static func open(
    _ log: any OrderedLog, as name: String, _ recorder: Recorder
  ) async throws -> RootStore<Jobs, Action> {
    let hasBegun = Flag()
    let holding = Leaseholder<Jobs, Action>(lease: { $0.lease }, action: Action.lease, duration: duration)
    let deliver = StateEffect<Jobs, Action>.forEach({ jobs in
      jobs.pending.map { Work(job: $0, term: jobs.lease.term) }
    }) { work in
      .run { dispatch in
        try await dispatch.sleep(for: .milliseconds(20))
        let action = Action.done(work.job, term: work.term, by: holding.replica)
        _ = recorder.invoke(action.names[0], by: "\(holding.replica) \(work.id)")
        dispatch(action)
      }
    }
    let store = try await RootStore<Jobs, Action>(
      following: log, initialState: Jobs(), options: FollowingOptions(fingerprint: .hashed { $0.hash })
    ) { jobs, action in
      if hasBegun.raise() { recorder.begin(name, after: jobs.position, hash: jobs.hash) }
      jobs.enter(action)
      recorder.apply(action.names, at: jobs.position, on: name, hash: jobs.hash)
    }
    holding.hold(store, effects: [deliver])
    Task {
      var held = false
      for await jobs in store.states() where holding.holds(jobs) != held {
        held.toggle()
        tell("\(held ? "holds" : "lost") \(name)")
      }
    }
    return store
  }

  private static func order(
    from number: Int, at store: RootStore<Jobs, Action>, _ recorder: Recorder, until isStopped: Flag
  ) async {
    for job in 1... {
      if isStopped.isRaised { break }
      let action = Action.order(Job(id: number * 100_000 + job))
      let call = recorder.invoke(action.names[0], by: "\(number)")
      do {
        let (position, hash) = try await store.send(action) { ($0.position, $0.hash) }
        recorder.response(call, .acknowledged, position: position, hash: hash)
        tell("acknowledged")
        try await Task.sleep(for: .milliseconds(5))
      } catch {
        recorder.response(call, .unknown)
        return tell("error \(error)")
      }
    }
    tell("stopped")
  }
}

/// A flag that is raised once.
final class Flag: Sendable {
  private let isUp = Atomic(false)

  /// Returns whether the flag was down before.
  @discardableResult func raise() -> Bool { !isUp.exchange(true, ordering: .relaxed) }

  var isRaised: Bool { isUp.load(ordering: .relaxed) }
}
