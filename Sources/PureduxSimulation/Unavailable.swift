#if !(Simulation && compiler(>=6.3) && os(Linux))
  @available(*, unavailable, message: "It needs the trait Simulation of the package, Swift 6.3 and Linux.")
  public struct Simulation {}
#endif
