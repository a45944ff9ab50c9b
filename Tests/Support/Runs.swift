import Foundation

/// Whether all tests run over all kinds of stores (see Docs/Project/Contributing.md).
package let isThorough = ProcessInfo.processInfo.environment["PUREDUX_THOROUGH"] != nil

/// Whether a sanitizer slows everything down.
package let isSanitized = ProcessInfo.processInfo.environment["PUREDUX_SANITIZED"] != nil
