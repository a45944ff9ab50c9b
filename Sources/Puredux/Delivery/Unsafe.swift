// Unsafe constructs, each with the reason why it is sound. "No way back in" rests on `Tree.enter`, which keeps out whoever comes from within.

import Synchronization

/// A reference to what lives on a tree's executor. Anybody may hold and pass it on; only code that runs there can look inside.
///
/// SAFETY: the value is reached in three ways only: through `callAsFunction`, which the compiler lets nobody call but from
/// the tree's isolation; in `map`, whose closures in this library do nothing but store it in another confined value; and for
/// the release of a store that nothing can be asked of any more. One tree's values never meet another tree: they are made from that tree's
/// stores alone.
@usableFromInline
struct Confined<Value: ~Copyable>: ~Copyable, @unchecked Sendable {
  @usableFromInline
  let value: Value

  @inlinable
  init(storing value: consuming Value) {
    self.value = value
  }

  /// Shows the value in its place.
  @inlinable
  func withValue<Result: ~Copyable, Failure: Error>(
    on tree: isolated any TreeIsolation, _ body: (borrowing Value) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    try body(value)
  }

  /// Looks inside from anywhere, for a store that is gone and closed, while nothing is under way in its tree: what runs on the executor later
  /// asks first whether the store is closed, and what ran before was seen to be through.
  @usableFromInline
  func withValueOfReleasedStore(_ body: (borrowing Value) -> Void) {
    body(value)
  }

  /// Another confined value that is made from this one and a second one of the same tree, without a look inside.
  @inlinable
  func map<Second, Other: ~Copyable>(
    with second: Confined<Second>, _ make: (borrowing Value, Second) -> Other
  ) -> Confined<Other> {
    Confined<Other>(storing: make(value, second.value))
  }
}

extension Confined: Copyable where Value: Copyable {}

extension Confined {
  @inlinable
  init(_ value: sending Value) {
    self.init(storing: value)
  }

  @inlinable
  func callAsFunction(on tree: isolated any TreeIsolation) -> Value { value }

  /// Another confined value that is made from this one, without a look inside.
  @inlinable
  func map<Other: ~Copyable>(_ make: (Value) -> Other) -> Confined<Other> {
    Confined<Other>(storing: make(value))
  }
}

/// A serial executor, looked up once and kept alive.
///
/// SAFETY: the reference that is not counted lies beside the object that keeps its executor alive. The main actor's lives for ever.
@usableFromInline
@safe struct ExecutorReference: Sendable {
  @usableFromInline
  let unowned: UnownedSerialExecutor
  @usableFromInline
  let owner: (any AnyObject & Sendable)?

  @usableFromInline
  init(_ executor: StoreExecutor) {
    switch executor.kind {
    case .own:
      let own = OwnExecutor()
      owner = own
      unsafe unowned = own.unownedExecutor
    case .mainActor:
      owner = nil
      unsafe unowned = MainActor.sharedUnownedExecutor
    case .brought(let executor):
      owner = executor
      unsafe unowned = executor.asUnownedSerialExecutor()
    }
  }
}

private actor OwnExecutor {}

extension Tree {
  /// Makes what is isolated to a tree from anywhere: a task that begins on the tree's executor, and so depends on no other.
  ///
  /// SAFETY: `isolated` is no part of how a function is called, and because what is passed here only makes a task of the tree, and looks
  /// at nothing of it.
  @inlinable
  nonisolated func onExecutor(_ make: (isolated Tree) -> Void) {
    withoutActuallyEscaping(make) { make in
      unsafe unsafeBitCast(make, to: ((Tree) -> Void).self)(self)
    }
  }
}

/// An object that is made when it is first needed, and stays as long as its owner: eight bytes where it is not.
///
/// SAFETY: the reference is counted once, is never replaced, and is given back when the owner goes and nobody can ask any more.
@usableFromInline
@safe struct Lazily<Object: AnyObject>: ~Copyable {
  @usableFromInline
  let reference: LazyReference

  @inlinable
  init(_ object: Object? = nil) {
    unsafe reference = LazyReference(object.map { unsafe Unmanaged.passRetained($0).toOpaque() })
  }

  @inline(__always)
  @inlinable
  var exists: Bool { unsafe reference.pointer.load(ordering: .relaxed) != nil }

  /// The object, where there is one.
  @inline(__always)
  @inlinable
  func withObject<Result>(_ body: (Object) -> Result) -> Result? {
    guard let pointer = unsafe reference.pointer.load(ordering: .acquiring) else { return nil }
    return unsafe Unmanaged<Object>.fromOpaque(pointer)._withUnsafeGuaranteedRef { body($0) }
  }

  @inlinable
  func callAsFunction(orMake make: () -> Object) -> Object {
    if let object = withObject({ $0 }) { return object }
    let made = unsafe Unmanaged.passRetained(make())
    let (isStored, winner) = unsafe reference.pointer.compareExchange(
      expected: nil, desired: made.toOpaque(), ordering: .acquiringAndReleasing)
    guard let winner = unsafe winner, !isStored else { return unsafe made.takeUnretainedValue() }
    unsafe made.release()
    return unsafe Unmanaged<Object>.fromOpaque(winner).takeUnretainedValue()
  }
}

/// What `Lazily` is, whatever its object: the code of a deinitializer is not specialized, and looking up what a generic one is for would cost more than
/// all that it does.
@usableFromInline
@safe struct LazyReference: ~Copyable {
  @usableFromInline
  let pointer: Atomic<UnsafeMutableRawPointer?>

  @inlinable
  init(_ pointer: UnsafeMutableRawPointer?) {
    unsafe self.pointer = unsafe Atomic(pointer)
  }

  @inlinable
  deinit {
    if let pointer = unsafe pointer.load(ordering: .acquiring) {
      unsafe Unmanaged<AnyObject>.fromOpaque(pointer).release()
    }
  }
}

extension LazyReference: @unchecked Sendable {}
extension Lazily: Sendable where Object: Sendable {}

/// A variable of a tree's executor, without the run-time check for overlapping accesses, which costs as much as a small reducer.
///
/// SAFETY: it is reached from the tree's isolation only, or by who alone can still ask anything of it: a filter by its one reader, and what belongs to a
/// store that has ended, and that nothing is under way for, by who releases it (`Tree.release`). An access copies the value out or sets it. What setting
/// releases may run the user's code, which has no way to the same variable.
@usableFromInline
class Variable<Value> {
  @usableFromInline
  @exclusivity(unchecked)
  final var storage: Value

  @inlinable
  init(_ value: Value) {
    unsafe storage = value
  }

  @inlinable
  final var value: Value {
    get { unsafe storage }
    set { unsafe storage = newValue }
  }
}

/// The variables of a channel that are its source's. A base class, so that they cost no object of their own.
///
/// Without the run-time checks for overlapping accesses, which cost more than what most sources do. SAFETY: they are reached through their
/// source only (below), which lives on its tree's executor, or by who releases a store that nothing is under way for (`Tree.release`), and because what is called during an access has no way back in: a publication changes
/// nothing but the log and the scratch.
@usableFromInline
class ChannelVariables<State: Sendable>: @unchecked Sendable {
  /// Whether there are subscribers whose place in the order has come.
  @usableFromInline
  @exclusivity(unchecked)
  final var isActive = false
  /// The sources that take their states from this one and are watched.
  @usableFromInline
  @exclusivity(unchecked)
  final var downstreams = CallList<Downstream<State>>()
  @usableFromInline
  @exclusivity(unchecked)
  final var scratch = Channel<State>.Scratch()
  /// Of a store's source: what selectors remember of it and of the views of it.
  @usableFromInline
  final var memories: [WeakMemory] = []

  @inlinable
  init() {}
}

extension Channel: @unchecked Sendable {}

extension Source {
  /// Whether there may be anybody to publish to. The first is what every commit asks: it is never true of a store that nobody ever followed.
  @inlinable
  final var wasFollowed: Bool { channel.exists }
  @inlinable
  final var isFollowed: Bool { channel.withObject { unsafe $0.isActive || !$0.downstreams.isEmpty } ?? false }

  /// Its own subscribers, where it has any.
  @inlinable
  var activeChannel: Channel<State>? {
    channel.withObject { unsafe $0.isActive ? $0 : nil } ?? nil
  }

  @inlinable
  func setActive(_ isActive: Bool) {
    channel.withObject { unsafe $0.isActive = isActive }
  }

  @inlinable
  func withDownstreams<Result>(_ body: (borrowing CallList<Downstream<State>>) -> Result) -> Result? {
    channel.withObject { body(unsafe $0.downstreams) }
  }

  @inlinable
  func changeDownstreams<Result>(_ body: (inout CallList<Downstream<State>>) -> Result) -> Result {
    unsafe body(&channel { Channel() }.downstreams)
  }

  /// Hands a state to everybody who watches, here and below.
  @inlinable
  func publish(_ state: State, _ propagation: inout Propagation) {
    channel.withObject { channel in
      if unsafe channel.isActive { unsafe channel.publish(state, scratch: &channel.scratch) }
      if unsafe channel.downstreams.isEmpty { return }
      guard propagation.depth < Depth.reach else {
        propagation.waiting.append { propagation in
          unsafe channel.downstreams.forEach { $0.receive(state, &propagation) }
        }
        return
      }
      propagation.depth += 1
      unsafe channel.downstreams.forEach { $0.receive(state, &propagation) }
      propagation.depth -= 1
    }
  }

  @inlinable
  func dropScratch() {
    channel.withObject { unsafe $0.scratch = Channel<State>.Scratch() }
  }
}

extension Confined {
  /// The channel of a source, from anywhere: it is made once, by atomics, and what subscribers ask of it is behind a lock.
  @inlinable
  func channel<State>() -> Channel<State> where Value == Source<State> { value.channel { Channel() } }

  /// Gives up a cursor of a source's channel; true where it was the last.
  @inline(__always)
  @inlinable
  func remove<State>(_ cursor: Int) -> Bool where Value == Source<State> {
    value.channel.withObject { channel in channel.removal(channel, cursor) } ?? false
  }
}

/// A source that is known of as long as somebody else holds it.
///
/// SAFETY: the reference is handed on as a confined one only.
@usableFromInline
struct WeaklyConfined: @unchecked Sendable {
  private weak let source: AnySource?

  init<State>(_ source: Confined<Source<State>>) {
    self.source = source.value
  }

  var isGone: Bool { source == nil }

  func confined<State>() -> Confined<Source<State>>? {
    (source as? Source<State>).map { Confined(storing: $0) }
  }
}

/// Objects that are called one after the other without counting references, which would cost more than most of the calls.
///
/// SAFETY: the list counts each object once for as long as it is in it, and does not change while it calls them: it lives on a tree's
/// executor, and what is called has no way back in.
@usableFromInline
@safe struct CallList<Object: AnyObject>: ~Copyable {
  @usableFromInline
  var objects: ContiguousArray<Unmanaged<Object>> = unsafe []

  @inlinable
  init() {}

  @inlinable
  var count: Int { unsafe objects.count }
  @inlinable
  var isEmpty: Bool { unsafe objects.isEmpty }

  @inlinable
  func has(_ object: Object, at place: Int) -> Bool {
    unsafe place < objects.count && objects[place].toOpaque() == Unmanaged.passUnretained(object).toOpaque()
  }

  @inlinable
  mutating func append(_ object: Object) {
    unsafe objects.append(.passRetained(object))
  }

  /// Removes the object at a place, and puts the last one there, which it returns.
  @inlinable
  mutating func remove(at place: Int) -> Object? {
    unsafe objects.swapAt(place, objects.count - 1)
    unsafe objects.removeLast().release()
    return unsafe place < objects.count ? objects[place].takeUnretainedValue() : nil
  }

  @inlinable
  mutating func removeAll() -> ContiguousArray<Object> {
    let all = ContiguousArray(unsafe objects.map { unsafe $0.takeRetainedValue() })
    unsafe objects = []
    return all
  }

  @inlinable
  func forEach(_ call: (Object) -> Void) {
    unsafe objects.withUnsafeBufferPointer { objects in
      for place in objects.indices { unsafe objects[place]._withUnsafeGuaranteedRef { call($0) } }
    }
  }

  @inlinable
  deinit {
    for place in unsafe objects.indices { unsafe objects[place].release() }
  }
}

/// The source of a store, with the state that the store owns, and what reduces that. In a root store it is the state that it shows, too.
///
/// Without the run-time check for overlapping accesses. SAFETY: the state is reached from the tree's isolation only, where one commit runs
/// at a time, or by who releases a store that nothing is under way for (`Tree.release`), and because what runs during an access, a reducer, has no way back in: everything that can be asked of a tree takes its
/// place in the order or waits for the executor.
@usableFromInline
final class StoreSource<Owned: Sendable, State: Sendable, Action: Sendable>: Source<State> {
  /// None once the store is released.
  @usableFromInline
  @exclusivity(unchecked)
  var storage: Owned?
  @usableFromInline
  let step: ReducerStep<Owned, Action>

  @inlinable
  init(
    owned: Owned, reducer: Reducer<Owned, Action>, link: UpstreamLink<State>?,
    withState: @escaping (Source<State>, _ body: (State) -> Void) -> Void
  ) {
    unsafe storage = owned
    step = ReducerStep(reduce: reducer.reduce)
    super.init(link: link, withState: withState)
  }

  /// A source that is known to be of this kind: for the closures that are made for one, which are called with that one.
  @inlinable
  static func known(_ source: Source<State>) -> StoreSource {
    unsafe unsafeDowncast(source, to: StoreSource.self)
  }

  @inlinable
  var owned: Owned? { unsafe storage }

  @inline(__always)
  @inlinable
  func reduce(_ action: inout Action) {
    guard unsafe storage != nil else { return }
    unsafe step.reduce(&storage!, &action)
  }

  /// By one of the reducers that its own is made of.
  @inlinable
  func reduce(_ action: inout Action, by reducer: (inout Owned, inout Action) -> Void) {
    guard unsafe storage != nil else { return }
    unsafe reducer(&storage!, &action)
  }

  @usableFromInline
  override var isStore: Bool { true }

  @usableFromInline
  override func release() {
    unsafe storage = nil
    forgetMemories()
  }
}

/// A reducer that is called in its place: not copyable, as `Uncounted` is not.
@usableFromInline
struct ReducerStep<State, Action>: ~Copyable {
  @usableFromInline
  let reduce: (inout State, inout Action) -> Void

  @inlinable
  init(reduce: @escaping (inout State, inout Action) -> Void) {
    self.reduce = reduce
  }
}

/// A reference to a store's origin that does not keep it alive, so that an action on its way costs no reference counting.
///
/// SAFETY: an origin goes only after everything that was accepted from it: it is held by its store, and the release of
/// a store is itself an entry of the inbox, behind all that the store was given, and holds the origin until it is done.
/// (`Tree.release` orders it; where nothing is under way, there is nothing that could borrow the origin.) On the way up from an origin, each
/// holds the next.
@usableFromInline
@safe struct Borrowed<Object: AnyObject & Sendable>: @unchecked Sendable {
  @usableFromInline
  let reference: Unmanaged<Object>

  @inlinable
  init(_ object: Object) {
    unsafe reference = .passUnretained(object)
  }

  @inlinable
  static func == (lhs: Borrowed, rhs: Borrowed) -> Bool {
    unsafe lhs.reference.toOpaque() == rhs.reference.toOpaque()
  }

  @inlinable
  func withObject<Result>(_ body: (Object) -> Result) -> Result {
    unsafe reference._withUnsafeGuaranteedRef { body($0) }
  }
}

/// An object that is counted until it is taken, once. What holds it is plain memory: an inbox of plain actions is moved and emptied as such.
///
/// SAFETY: a tree's commands are taken by who performs them, and each entry of an inbox is performed once; one that the inbox
/// refuses is taken by who offered it. An executor that drops a tree's jobs leaks what it was to do.
@usableFromInline
@safe struct Owed<Object: AnyObject & Sendable>: @unchecked Sendable {
  @usableFromInline
  let reference: Unmanaged<Object>

  @inlinable
  init(_ object: Object) {
    unsafe reference = .passRetained(object)
  }

  @inlinable
  func take() -> Object { unsafe reference.takeRetainedValue() }
}

// Commands have no variables, and their constants are `Sendable`: the compiler does not look into a class that others inherit from, and into them.
extension Command: @unchecked Sendable {}
extension Call: @unchecked Sendable {}
extension End: @unchecked Sendable {}
extension Reading: @unchecked Sendable {}

/// How the actions of a proxy get to its tree: as they are, or through a projection.
///
/// What would be an enumeration with two payloads, but that the optimizer sees through a cast to the origin behind it, and then counts no
/// references in sending. SAFETY: `isDirect` is set together with the object, by the two initializers, and neither changes.
@usableFromInline
@safe struct Route<Action: Sendable>: Sendable {
  @usableFromInline
  enum Target {
    case direct(Origin<Action>)
    case mapped(MappedActions<Action>)
  }

  @usableFromInline
  let isDirect: Bool
  @usableFromInline
  let object: any AnyObject & Sendable

  @inlinable
  init(_ origin: Origin<Action>) {
    object = origin
    isDirect = true
  }

  @inlinable
  init(_ actions: MappedActions<Action>) {
    object = actions
    isDirect = false
  }

  @inlinable
  var target: Target {
    if isDirect { return unsafe .direct(unsafeDowncast(object, to: Origin<Action>.self)) }
    return unsafe .mapped(unsafeDowncast(object, to: MappedActions<Action>.self))
  }

  @inlinable
  var place: any StorePlace {
    switch target {
    case .direct(let origin): origin
    case .mapped(let actions): actions.place
    }
  }
}

/// A consumer that waits for the next state, or for the end.
///
/// An unchecked continuation, as it is made once a delivery. SAFETY: whoever keeps a waiter (the log, the inbox, a tree's turns, an effect group, a command) keeps it in exactly one place, hands it
/// out in removing it there, and every caller that is handed one resumes it.
@usableFromInline
@safe struct Waiter<Value: Sendable>: Sendable {
  @usableFromInline
  let continuation: UnsafeContinuation<Value, Never>

  @inlinable
  init(_ continuation: UnsafeContinuation<Value, Never>) {
    unsafe self.continuation = continuation
  }

  @inlinable
  func resume(returning value: Value) {
    unsafe continuation.resume(returning: value)
  }

  /// Suspends the current task until the waiter passed to the closure is resumed.
  @inlinable
  static func wait(
    isolation: isolated (any Actor)? = #isolation, _ register: (Waiter) -> Void
  ) async -> Value {
    unsafe await withUnsafeContinuation { continuation in
      unsafe register(Waiter(continuation))
    }
  }
}
