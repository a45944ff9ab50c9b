/// What a tree does with one of its stores. Lives on the tree's executor.
///
/// Closures that are made where the user's types are known, one within the other along the path: calling one costs no more
/// than the reducers in it. Not copyable, so that they are called where they lie: a copy would be counted, at two atomic operations a commit.
@usableFromInline
struct StoreNode<Action: Sendable>: ~Copyable {
  /// Given the action in its place, so that it is not copied at each level. Nobody changes it.
  @usableFromInline
  typealias Commit = (inout Action) -> Void

  /// Takes an action through every reducer on its path, from this store up to the root, and publishes what came of it.
  @usableFromInline
  let commit: Commit
  /// The store's source: to end its sequences, and to drop the state of a store that is gone.
  @usableFromInline
  let source: AnySource
  /// What else there is on the path; none where there are only reducers.
  @usableFromInline
  let attendance: Attendance<Action>?

  @inlinable
  init<State: Sendable>(
    root source: StoreSource<State, State, Action>, features: StoreFeatures<State, State, Action>
  ) {
    let commit: Commit = { action in
      source.reduce(&action)
      if source.wasFollowed { source.publishOwned() }
    }
    self.commit = commit
    self.source = source
    attendance = Attendance(
      around: features.middleware.map { $0.around(source: source, above: nil) },
      recording: features.history.map { history in
        { [steps = features.reducer.steps] action, attended in
          history.record(action, attended, by: steps, in: source)
          if source.wasFollowed { source.publishOwned() }
        }
      }, commit: commit)
  }

  @inlinable
  init<Local: Sendable, State: Sendable>(
    child source: StoreSource<Local, State, Action>, features: StoreFeatures<Local, State, Action>,
    under parent: borrowing StoreNode, depth: Int
  ) {
    let (commitAbove, above) = Depth.isBreak(depth) ? parent.chained() : (parent.commit, parent.attendance)
    let commit: Commit = { action in
      source.reduce(&action)
      commitAbove(&action)
    }
    self.commit = commit
    self.source = source
    let recording: Attendance<Action>.Recording?
    if let history = features.history {
      recording = {
        [recordingAbove = above?.recording, steps = features.reducer.steps]
        action, attended in
        history.record(action, attended, by: steps, in: source)
        var action = action
        if let recordingAbove { recordingAbove(action, attended) } else { commitAbove(&action) }
      }
    } else {
      recording = above?.recording.map { recordingAbove in
        { action, attended in
          var action = action
          source.reduce(&action)
          recordingAbove(action, attended)
        }
      }
    }
    attendance = Attendance(
      around: features.middleware.map { $0.around(source: source, above: above?.around) } ?? above?.around,
      recording: recording, commit: commit)
  }

  /// The closures, for a store below whose release is not to release all of those above by recursion.
  @inlinable
  borrowing func chained() -> (Commit, Attendance<Action>?) {
    let commit = Chained(commit)
    let above: Commit = { action in unsafe commit.next?(&action) }
    guard let attendance else { return (above, nil) }
    let around = attendance.around.map(Chained.init)
    let recording = attendance.recording.map(Chained.init)
    return (
      above,
      Attendance(
        around: around.map { around in { unsafe around.next?($0, $1) } },
        recording: recording.map { recording in { unsafe recording.next?($0, $1) } }, commit: above)
    )
  }
}

/// Holds what is next in a chain, and hands it over to be released in a loop.
@usableFromInline
final class Chained<Next> {
  // SAFETY: changed by the deinitializer alone, so that there is nothing to check about accesses.
  @usableFromInline
  @exclusivity(unchecked)
  var next: Next?

  @inlinable
  init(_ next: Next) { unsafe self.next = next }

  deinit { ReleaseQueue.deep.release { unsafe Confined(storing: next.take()) } }
}

/// What a store does with an action beside reducing it. Its owned state and the state that it shows differ in a child store.
@usableFromInline
struct StoreFeatures<Owned: Sendable, State: Sendable, Action: Sendable>: Sendable {
  @usableFromInline
  let reducer: Reducer<Owned, Action>
  @usableFromInline
  let middleware: Middleware<State, Action>?
  @usableFromInline
  let emission: Emission<State>
  @usableFromInline
  let history: History<Owned, Action>?

  @inlinable
  init(
    reducer: Reducer<Owned, Action>, middleware: [Middleware<State, Action>], emission: Emission<State>,
    history: History<Owned, Action>?
  ) {
    self.reducer = reducer
    self.middleware = middleware.isEmpty ? nil : Middleware(middleware)
    self.emission = emission
    self.history = history
  }

  /// Whether there is more than a reducer.
  @inlinable
  var isAttended: Bool { middleware != nil || history != nil }
}

/// The middleware and the histories on the path of a store.
@usableFromInline
final class Attendance<Action: Sendable> {
  /// Lets the middleware handle an action, from this store's up to the root's; what they pass on is committed.
  @usableFromInline
  typealias Around = (Action, AttendedAction<Action>) -> Void
  /// Commits as `StoreNode.commit` does, and keeps history.
  @usableFromInline
  typealias Recording = (Action, AttendedAction<Action>) -> Void

  @usableFromInline
  let around: Around?
  @usableFromInline
  let recording: Recording?
  @usableFromInline
  let commit: StoreNode<Action>.Commit

  @inlinable
  init(commit: @escaping StoreNode<Action>.Commit) {
    around = nil
    recording = nil
    self.commit = commit
  }

  /// None where there are only reducers.
  @inlinable
  init?(around: Around?, recording: Recording?, commit: @escaping StoreNode<Action>.Commit) {
    guard around != nil || recording != nil else { return nil }
    self.around = around
    self.recording = recording
    self.commit = commit
  }
}

/// An action that middleware handles, or that goes into a history. One object for all that come one after the other from the same store, as
/// making it costs as much as three commits.
@usableFromInline
final class AttendedAction<Action: Sendable>: Variable<AttendedOutcome> {
  /// Called where they lie, as those of a `StoreNode` are.
  @usableFromInline
  struct Steps: ~Copyable {
    @usableFromInline
    let around: Attendance<Action>.Around?
    @usableFromInline
    let recording: Attendance<Action>.Recording?
    @usableFromInline
    let commit: StoreNode<Action>.Commit
    @usableFromInline
    let observer: Tree<Action>.CommitObserver?

    @inlinable
    init(attendance: Attendance<Action>, observer: Tree<Action>.CommitObserver?) {
      around = attendance.around
      recording = attendance.recording
      commit = attendance.commit
      self.observer = observer
    }
  }

  // Before the origin, so that it goes before: the origin sees to it that what is above goes in a loop.
  @usableFromInline
  let steps: Steps
  /// The store that it was given to.
  @usableFromInline
  let origin: Origin<Action>

  @inlinable
  init(origin: Origin<Action>, attendance: Attendance<Action>, observer: Tree<Action>.CommitObserver?, position: Int) {
    self.origin = origin
    steps = Steps(attendance: attendance, observer: observer)
    super.init(AttendedOutcome(position: position))
  }

  /// Lets the middleware handle the next action, or commits it where there is none.
  @inlinable
  func handle(_ action: Action) {
    value = AttendedOutcome(position: value.position)
    if steps.around != nil { steps.around?(action, self) } else { commit(action) }
  }

  /// Commits what the middleware made of it.
  @inlinable
  func commit(_ action: Action) {
    value.position += 1
    value.isCommitted = true
    var action = action
    if steps.recording != nil { steps.recording?(action, self) } else { steps.commit(&action) }
    steps.observer?(&action, origin)
  }
}

/// What became of an attended action so far.
@usableFromInline
struct AttendedOutcome {
  /// How many commits the tree has seen, with those of this action.
  @usableFromInline
  var position: Int
  @usableFromInline
  var isCommitted = false
  @usableFromInline
  var rejection: RejectionReason?

  @inlinable
  init(position: Int) {
    self.position = position
  }
}
