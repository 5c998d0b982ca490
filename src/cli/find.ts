// Finds one item of a list by its id or name.
import { CommandFailure, EXIT, usageError } from './failure.ts'

export type Wanted<Item> = {
  /** The noun for an item, such as `listener`. */
  kind: string
  /** The error code for an item that does not exist, as the API has it. */
  code: string
  names: (item: Item) => (string | null | undefined)[]
  /** The command that lists them. */
  list: string
}

export async function findOne<Item extends { id: string }>(
  items: AsyncIterable<Item> | Iterable<Item>,
  wanted: string,
  { kind, code, names, list }: Wanted<Item>,
): Promise<Item> {
  const found: Item[] = []
  for await (const item of items) {
    if (item.id === wanted.toLowerCase()) return item
    if (names(item).includes(wanted)) found.push(item)
  }
  const [one, ...others] = found
  if (one && others.length === 0) return one
  if (one)
    throw usageError(`Several have the name ${wanted}: ${found.map(({ id }) => id).join(', ')}. Give an id.`, list)
  throw new CommandFailure(EXIT.failed, code, `There is no ${kind} ${wanted}.`, list)
}
