import Foundation
import Hummingbird
import Logging
import Puredux

/// Answers every error with JSON: `{"error": {"message": …}}`.
struct JSONErrors<Context: RequestContext>: RouterMiddleware {
  func handle(
    _ request: Request, context: Context, next: (Request, Context) async throws -> Response
  ) async throws -> Response {
    do {
      return try await next(request, context)
    } catch {
      return try answer(to: error, logger: context.logger).response(from: request, context: context)
    }
  }

  private func answer(to error: any Error, logger: Logger) -> HTTPError {
    switch error {
    case let error as HTTPError:
      return HTTPError(error.status, headers: error.headers, message: error.body ?? error.status.message)
    case let error as any HTTPResponseError:
      return HTTPError(error.status, message: error.status.message)
    case is StoreError:
      return HTTPError(.serviceUnavailable, message: "The server is shutting down.")
    case let failure as Journal.Failure:
      logger.error("\(failure)")
      return HTTPError(.internalServerError, message: failure.description)
    default:
      logger.error("\(error)")
      return HTTPError(.internalServerError, message: "Something went wrong.")
    }
  }
}

extension HTTPResponse.Status {
  fileprivate var message: String {
    switch self {
    case .notFound: "There is nothing here."
    case .contentTooLarge: "The body is too large: at most \(BoardContext.largestBody) bytes."
    case .badRequest: "The body cannot be read."
    default: reasonPhrase
    }
  }
}

extension Boards.Outcome {
  /// The card and the board that were changed, or the error that says why nothing was.
  func checked() throws -> (board: Int, card: Int?) {
    switch self {
    case .done(let board, let card): return (board, card)
    case .unknownBoard(let id): throw HTTPError(.notFound, message: "There is no board \(id).")
    case .unknownCard(let id): throw HTTPError(.notFound, message: "There is no card \(id) on this board.")
    case .unknownColumn(let name):
      throw HTTPError(.unprocessableContent, message: "There is no column \"\(name)\" on this board.")
    case .none: throw HTTPError(.internalServerError, message: "Nothing was changed.")
    }
  }
}
