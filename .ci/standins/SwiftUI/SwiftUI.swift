// Replaces SwiftUI where it does not exist, so that the guide's snippets compile: only the declarations that they use,
// without an implementation.

@MainActor @preconcurrency
public protocol View {
  associatedtype Body: View
  @ViewBuilder @MainActor @preconcurrency var body: Body { get }
}

extension Never: View {
  public var body: Never { fatalError() }
}

public struct EmptyView: View {
  public init() {}
  public var body: Never { fatalError() }
}

@MainActor
@resultBuilder
public enum ViewBuilder {
  public static func buildBlock<each Content: View>(_ content: repeat each Content) -> some View { EmptyView() }
  public static func buildBlock<Content: View>(_ content: Content) -> Content { content }
}

public struct Text: View {
  public init(_ text: String) {}
  public var body: Never { fatalError() }
}

public struct Button: View {
  public init(_ title: String, action: @escaping @MainActor () -> Void) {}
  public var body: Never { fatalError() }
}

public struct TextField: View {
  public init(_ title: String, text: Binding<String>) {}
  public var body: Never { fatalError() }
}

public struct VStack<Content: View>: View {
  public init(@ViewBuilder content: () -> Content) {}
  public var body: Never { fatalError() }
}

@propertyWrapper
public struct Binding<Value> {
  @preconcurrency
  public init(
    get: @escaping @isolated(any) @Sendable () -> Value, set: @escaping @isolated(any) @Sendable (Value) -> Void
  ) {}

  public var wrappedValue: Value { fatalError() }
}

@propertyWrapper
public struct State<Value> {
  public var wrappedValue: Value

  public init(initialValue value: Value) { wrappedValue = value }
  public init(wrappedValue value: Value) { wrappedValue = value }
}

@propertyWrapper
public struct Environment<Value> {
  public init(_ type: Value.Type) where Value: AnyObject {}
  public var wrappedValue: Value { fatalError() }
}

extension View {
  public func environment<Object: AnyObject>(_ object: Object?) -> some View { EmptyView() }
}
