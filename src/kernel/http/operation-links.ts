// Links of the OpenAPI document: from the operation that creates a resource to those whose path takes its id.
import type * as z from 'zod'
import type { Operation } from './routes.ts'

type Link = { operationId: string; parameters: Record<string, string> }

const listParameters = (path: string): string[] => [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!)

/** Returns a function that derives the links of an operation from the paths and replies of all of them. */
export function createLinks(operations: Operation[]) {
  const targets = operations.map(({ id, path }) => ({ id, path, parameters: listParameters(path) }))
  const itemPaths = new Map(operations.map(operation => [operation, findItemPath(operation, operations)]))

  /** A parameter may have the same name for things of different kinds, such as keys of two owners. */
  const countKinds = (parameter: string) =>
    new Set([...itemPaths.values()].filter(path => path?.endsWith(`{${parameter}}`))).size

  return (operation: Operation): Record<string, Link> | undefined => {
    if (operation.method !== 'post' && operation.method !== 'put') return undefined
    const own = listParameters(operation.path)
    const members = listMembers(operation)
    const itemPath = itemPaths.get(operation)
    const idParameter = itemPath && listParameters(itemPath).at(-1)!
    const isIdOf = (path: string) =>
      path === itemPath ||
      path.startsWith(`${itemPath}/`) ||
      (idParameter !== undefined && countKinds(idParameter) === 1)

    const sourceOf = (name: string, path: string): string | undefined => {
      if (own.includes(name)) return `$request.path.${name}`
      if (name === idParameter && isIdOf(path)) return '$response.body#/id'
      // A single word, like `host`, may mean something else to another slice.
      const isNamed = name.includes('_') && members.has(name) && countKinds(name) === 0
      return isNamed ? `$response.body#/${name}` : undefined
    }
    const links = targets.flatMap(({ id, path, parameters }): [string, Link][] => {
      const sources = parameters.map(name => [name, sourceOf(name, path)])
      const isReached = sources.every(([, source]) => source) && parameters.some(name => !own.includes(name))
      return isReached ? [[id, { operationId: id, parameters: Object.fromEntries(sources) }]] : []
    })
    return links.length > 0 ? Object.fromEntries(links) : undefined
  }
}

/** Finds the path of what an operation creates: directly below its own, or where a GET has the same reply. */
function findItemPath(operation: Operation, operations: Operation[]): string | undefined {
  const { method, path } = operation
  if (method !== 'post' || !listMembers(operation).has('id')) return undefined
  const isItem = (other: Operation) => other.path.endsWith('}')
  const isBelow = (other: Operation) => isItem(other) && other.path.replace(/\/\{\w+\}$/, '') === path
  const hasReply = (other: Operation) =>
    other.method === 'get' && isItem(other) && replyOf(other) === replyOf(operation)
  const item = operations.find(isBelow) ?? operations.find(hasReply)
  return item && !listParameters(path).includes(listParameters(item.path).at(-1)!) ? item.path : undefined
}

const replyOf = (operation: Operation): z.ZodType | undefined => ('reply' in operation ? operation.reply : undefined)

/** The members that a reply always has, if it is an object. */
function listMembers(operation: Operation): Set<string> {
  const reply = replyOf(operation)
  const shape = reply && 'shape' in reply ? (reply as z.ZodObject).shape : {}
  const isAlwaysSet = (member: unknown) => !(member as z.ZodType).safeParse(null).success
  return new Set(Object.keys(shape).filter(name => isAlwaysSet(shape[name])))
}
