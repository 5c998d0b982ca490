// Operations of the store, as callers and graphs ask for them.
import type { JsonObject } from './values.ts'

export type StoreOperation =
  | {
      op: 'put'
      namespace: string[]
      key: string
      value: JsonObject | null
      ttl?: number | null | undefined
      index?: string[] | false | null | undefined
    }
  | { op: 'get'; namespace: string[]; key: string; refresh_ttl?: boolean | null | undefined }
  | {
      op: 'search'
      prefix: string[]
      filter?: JsonObject | null | undefined
      /** Finds items by their meaning, the nearest first. */
      query?: string | null | undefined
      limit: number
      offset: number
      refresh_ttl?: boolean | null | undefined
    }
  | {
      op: 'namespaces'
      prefix?: string[] | null | undefined
      suffix?: string[] | null | undefined
      max_depth?: number | null | undefined
      limit: number
      offset: number
    }
