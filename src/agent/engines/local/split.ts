// Decides which of two revisions gets a request. Pure.

/** The revision beside the routed one of a route, with its share in percent. */
export type Split<Target = unknown> = {
  revision: string
  targets: Target[]
  share: number
  sticky: { by: 'cookie' } | { by: 'header'; header: string } | null
}
type SplitRoute = { revision?: string; targets: unknown[]; split?: Split }

/** A request that a copy of the other revision did not accept so often goes to the routed one. */
const TRIES = 3

/**
 * `point`: the place of the client between 0 and 1. It stays, so a share that grows takes clients and gives none back.
 * The routed revision gets all while no copy of the other one is ready.
 */
export function pickRevision<Route extends SplitRoute>(route: Route, point: number, tries = 0): Route {
  const { split } = route
  if (!split || split.targets.length === 0 || tries >= TRIES || point * 100 >= split.share) return route
  return { ...route, revision: split.revision, targets: split.targets }
}

/** The other side of a route with a split, for what has to know all targets. */
export const sidesOf = <Route extends SplitRoute>(route: Route): Route[] =>
  route.split ? [route, { ...route, revision: route.split.revision, targets: route.split.targets }] : [route]

/** The copies of a revision with a share, if all requests together need so many. The routed one keeps them all. */
export const copiesOfShare = (copies: number, share: number): number => Math.max(1, Math.ceil((copies * share) / 100))
