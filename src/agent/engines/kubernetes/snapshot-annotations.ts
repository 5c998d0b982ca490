// Reads the descriptions of snapshots in annotations. Pure.
import { HeldSnapshot } from '../../../protocol/snapshots.schema.ts'

export type NewSnapshot = Omit<HeldSnapshot, 'size_bytes'>

/** Undefined if someone else has changed it. */
export const parseSnapshot = (text: string): NewSnapshot | undefined =>
  HeldSnapshot.omit({ size_bytes: true }).safeParse(parseJson(text)).data

export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
