import Synchronization

/// An object that is created on first use and lives as long as its owner, in eight bytes.
///
/// SAFETY: the reference is retained once and never replaced. It is released when the owner is destroyed, when no code
/// can access it any more.
@usableFromInline @safe struct Lazy<Object: AnyObject>: ~Copyable {
  @usableFromInline let reference: LazyReference

  @inlinable init() {
    unsafe reference = LazyReference(nil)
  }

  @inlinable init(_ object: Object) {
    unsafe reference = LazyReference(Unmanaged.passRetained(object).toOpaque())
  }

  @inlinable @inline(__always) var exists: Bool { unsafe reference.pointer.load(ordering: .relaxed) != nil }

  @inlinable @inline(__always) func withObject<Result>(_ body: (Object) -> Result) -> Result? {
    guard let pointer = unsafe reference.pointer.load(ordering: .acquiring) else { return nil }
    return unsafe Unmanaged<Object>.fromOpaque(pointer)._withUnsafeGuaranteedRef { body($0) }
  }

  @inlinable @inline(__always) func callAsFunction(orMake make: () -> Object) -> Object {
    withObject { $0 } ?? made(make)
  }

  /// Separate, so that code that finds the object looks up no types.
  @inlinable @inline(never) func made(_ make: () -> Object) -> Object {
    let made = unsafe Unmanaged.passRetained(make())
    let (isStored, winner) = unsafe reference.pointer.compareExchange(
      expected: nil, desired: made.toOpaque(), ordering: .acquiringAndReleasing)
    guard let winner = unsafe winner, !isStored else { return unsafe made.takeUnretainedValue() }
    unsafe made.release()
    return unsafe Unmanaged<Object>.fromOpaque(winner).takeUnretainedValue()
  }
}

/// Untyped: a deinitializer is not specialized, and would look up a generic type.
@usableFromInline @safe struct LazyReference: ~Copyable {
  @usableFromInline let pointer: Atomic<UnsafeMutableRawPointer?>

  @inlinable init(_ pointer: UnsafeMutableRawPointer?) {
    unsafe self.pointer = unsafe Atomic(pointer)
  }

  @inlinable deinit {
    if let pointer = unsafe pointer.load(ordering: .acquiring) {
      unsafe Unmanaged<AnyObject>.fromOpaque(pointer).release()
    }
  }
}

extension LazyReference: @unchecked Sendable {}
extension Lazy: Sendable where Object: Sendable {}
