// Replaces UIKit where there is none, so that the snippet of the guide can be compiled: the declarations that it uses, and nothing behind them.

@MainActor
open class UIViewController {
  open var title: String?

  public init() {}

  open func viewDidLoad() {}
}
