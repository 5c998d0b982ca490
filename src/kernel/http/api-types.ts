// Types of calls of the declared routes, as a client writes them. Nothing exists at run time.
import type * as z from 'zod'
import type { EmptySchema, RouteSchemas, RoutesOf } from './routes.ts'

/** Lists travel as text separated by commas, and objects as opaque text, such as a cursor. */
type QueryValue<Out> = Out extends readonly (infer Item)[] ? readonly Item[] : Out extends object ? string : Out
/** The members of the input, where a default makes a member optional, with the values of the output. */
type QueryOf<In, Out> = { [Name in keyof In]: Name extends keyof Out ? QueryValue<Out[Name]> : never }

type CallOf<Route> =
  Route extends RouteSchemas<
    infer Params extends z.ZodObject,
    infer Query extends z.ZodObject,
    infer Body extends z.ZodType,
    infer Reply extends z.ZodType,
    infer Variant extends z.ZodType
  >
    ? {
        params: EmptySchema extends Params ? object : { [Name in keyof z.input<Params>]: string | number }
        query: EmptySchema extends Query ? object : Omit<QueryOf<z.input<Query>, z.output<Query>>, 'dry_run'>
        body: EmptySchema extends Body ? undefined : z.input<Body>
        reply: z.output<Reply>
        /** The reply to a dry run. Never, if the route has none. */
        plan: Variant extends z.ZodVoid ? never : 'dry_run' extends keyof z.output<Query> ? z.output<Variant> : never
      }
    : never

type Intersection<Union> = (Union extends unknown ? (each: Union) => void : never) extends (all: infer All) => void
  ? All
  : never

export type ApiOf<Slices> =
  Intersection<Slices extends unknown ? RoutesOf<Slices> : never> extends infer Routes
    ? { [Route in keyof Routes]: CallOf<Routes[Route]> }
    : never
