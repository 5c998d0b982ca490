// Mounts the operations of slices, and handlers that refuse other methods on their paths.
import type { Hono } from 'hono'
import { fail } from './errors.ts'
import type { AppEnv, Operation, Services } from './routes.ts'
import type { HandleOperation } from './serve-routes.ts'

const toRouterPath = ({ path, passThrough }: Operation): string =>
  path.replace(/\{(\w+)\}/g, ':$1') + (passThrough ? '*' : '')

/** Returns a function that mounts a slice. The first operation that is no probe loads the handler of all. */
export function createMounter(app: Hono<AppEnv>, services: Services, loadHandler: () => Promise<HandleOperation>) {
  const methodsOf = new Map<string, string[]>()

  /** Two slices may serve one path. `Allow` has the methods of both, because they are mounted by the same request. */
  function allowMethod(path: string, method: string): void {
    const methods = methodsOf.get(path)
    if (methods) return void methods.push(method)
    const allowed = [method]
    methodsOf.set(path, allowed)
    app.all(path, () => {
      const Allow = [...allowed, ...(allowed.includes('GET') ? ['HEAD'] : [])].join(', ')
      throw fail('method_not_allowed', { headers: { Allow } })
    })
  }

  return async (operations: Operation[]): Promise<void> => {
    const handle: HandleOperation = operations.every(({ isProbe }) => isProbe)
      ? (c, operation) => operation.open!(c, services, operation)
      : await loadHandler()
    for (const operation of operations) {
      const [path, method] = [toRouterPath(operation), operation.method.toUpperCase()]
      app.on(method, path, c => {
        const requestInfo = c.get('requestInfo')
        requestInfo.operation = operation.id
        if (operation.oauthErrors) requestInfo.oauthErrors = true
        if (operation.passThrough) requestInfo.passThrough = true
        return handle(c, operation)
      })
      allowMethod(path, method)
    }
  }
}
