// Replaces UIKit where it does not exist, so that the guide's snippet compiles: only the declarations that it uses,
// without an implementation.

@MainActor
open class UIViewController {
  open var title: String?

  public init() {}

  open func viewDidLoad() {}
}
