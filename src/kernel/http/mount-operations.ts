// Mounts the operations of slices, and handlers that refuse other methods on their paths.
import type { Context, Hono } from 'hono'
import { describeAbsentFamily } from './absent-families.ts'
import { fail } from './errors.ts'
import { notFound } from './middleware.ts'
import { resolvePath } from './path-aliases.ts'
import type { AppEnv, OpenOperation, Operation, Services } from './routes.ts'
import type { HandleOperation } from './serve-routes.ts'

const toRouterPath = ({ path, kind }: Operation): string =>
  path.replace(/\{(\w+)\}/g, ':$1') + (kind === 'passThrough' ? '*' : '')

const isProbe = (operation: Operation): operation is OpenOperation =>
  operation.kind === 'open' && operation.isProbe === true

type Handle<One> = (c: Context<AppEnv>, operation: One) => Response | Promise<Response>

/** Returns a function that mounts a slice. The first operation that is no probe loads the handler of all. */
export function createMounter(app: Hono<AppEnv>, services: Services, loadHandler: () => Promise<HandleOperation>) {
  const methodsOf = new Map<string, string[]>()

  /** Two slices may serve one path. `Allow` has the methods of both, because they are mounted by the same request. */
  function allowMethod(path: string, method: string): void {
    const methods = methodsOf.get(path)
    if (methods) return void methods.push(method)
    const allowed = [method]
    methodsOf.set(path, allowed)
    app.all(path, c => {
      if (describeAbsentFamily(resolvePath(c.req.raw))) return notFound(c)
      const Allow = [...allowed, ...(allowed.includes('GET') ? ['HEAD'] : [])].join(', ')
      throw fail('method_not_allowed', { headers: { Allow } })
    })
  }

  function mountAll<One extends Operation>(operations: One[], handle: Handle<One>): void {
    for (const operation of operations) {
      const [path, method] = [toRouterPath(operation), operation.method.toUpperCase()]
      app.on(method, path, c => {
        const requestInfo = c.get('requestInfo')
        requestInfo.operation = operation.id
        if (operation.kind === 'open' && operation.oauthErrors) requestInfo.oauthErrors = true
        if (operation.kind === 'passThrough') requestInfo.passThrough = true
        return handle(c, operation)
      })
      allowMethod(path, method)
    }
  }

  return async (operations: Operation[]): Promise<void> => {
    if (operations.every(isProbe)) mountAll(operations, (c, probe) => probe.open(c, services, probe))
    else mountAll(operations, await loadHandler())
  }
}
