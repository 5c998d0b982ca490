// The interface of `shared-looks.ts`: requests that wait for the same items share their queries.
import type { Permission } from '../permissions.ts'

/** `number` grows with the time at which items become visible, without gaps that are filled later. */
export type Numbered = { number: number; bytes: number }

/** `hash` is of the key, or of the token of the session. `isLimited`: access policies hide some items from it. */
export type Watcher = {
  kind: 'key' | 'session' | 'deployment'
  hash: string
  workspace: string
  permission: Permission
  isLimited?: boolean | undefined
}

export type WatchSource<Item extends Numbered> = {
  /** Names the kind of item and the workspace. Watchers of one subject see the same items. */
  subject: string
  /**
   * One authorized trip: items after the number, in order. `isShared` trips are made for all watchers, and do not count
   * towards the rate limit. `isLimited`: access policies of the caller have hidden some items, or could have.
   */
  read(after: number, isShared: boolean): Promise<{ items: Item[]; isLast: boolean; isLimited?: boolean | undefined }>
}

export type Watch<Item extends Numbered> = {
  /** All items up to this number have been returned. */
  readonly cursor: number
  /** The next items. None when the time is over, the signal aborts, or the request has made all the trips it may. */
  next(until: number, signal?: AbortSignal): Promise<Item[]>
}

export type Watches = {
  /** Refuses a key or session with too many streams. The result ends the stream. */
  admit(hash: string): () => void
  /** `start.isLast`: nothing after the number existed when it was read. The request made `trips` until then, or one. */
  watch<Item extends Numbered>(
    watcher: Watcher,
    source: WatchSource<Item>,
    start: { after: number; isLast: boolean; trips?: number },
  ): Watch<Item>
}
