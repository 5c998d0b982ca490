// node-postgres' types leave this module out.
declare module 'pg/lib/utils.js' {
  /** The text of a parameter, as `query()` sends it. */
  export function prepareValue(value: unknown): string | Buffer | null
}
