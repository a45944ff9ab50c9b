#if !(Simulation && compiler(>=6.3) && canImport(Glibc))
  @available(*, unavailable, message: "It needs the trait Simulation of the package, Swift 6.3, and Linux with glibc.")
  public struct Simulation {}
#endif
