import Foundation

/// Whether this is a run of all tests over all kinds of stores (see Docs/Project/Contributing.md).
package let isThorough = ProcessInfo.processInfo.environment["PUREDUX_THOROUGH"] != nil

/// Whether this run is under a sanitizer, where everything takes longer.
package let isSanitized = ProcessInfo.processInfo.environment["PUREDUX_SANITIZED"] != nil
