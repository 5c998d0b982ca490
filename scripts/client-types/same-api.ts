// Compiles if the published types of the routes are those of their declarations. `npm run client:package` prints them.
import type { Api as Published } from '../../dist/client/api.d.ts'
import type { Api as Declared } from '../../src/app.ts'

type IsSame<A, B> = [A] extends [B] ? ([B] extends [A] ? true : false) : false
type Differing = {
  [Route in keyof Declared]: Route extends keyof Published
    ? IsSame<Declared[Route], Published[Route]> extends true
      ? never
      : Route
    : Route
}[keyof Declared]

/** The error names the routes whose published types are not those of the declaration. */
export const differing: Record<Differing, never> = {}
export const unknown: Record<Exclude<keyof Published, keyof Declared>, never> = {}
