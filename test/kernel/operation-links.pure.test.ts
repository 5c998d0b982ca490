// Links of the document lead from what creates a thing to the operations that take its id.
import { expect, it } from 'vitest'
import * as z from 'zod'
import { createLinks } from '../../src/kernel/http/operation-links.ts'
import type { Operation } from '../../src/kernel/http/routes.ts'

const Ship = z.object({ id: z.string() })
const Key = z.object({ id: z.string() })
const operation = (method: string, path: string, reply?: z.ZodType) =>
  ({ kind: 'json', id: `${method} ${path}`, method, path, reply }) as unknown as Operation
const linksOf = (operations: Operation[], id: string) => createLinks(operations)(operations.find(one => one.id === id)!)
const targetsOf = (operations: Operation[], id: string) => Object.keys(linksOf(operations, id) ?? {})

it('a creation leads to the operations below it, and to others with the same parameter', () => {
  const operations = [
    operation('post', '/ships', Ship),
    operation('get', '/ships', z.array(Ship)),
    operation('get', '/ships/{ship_id}', Ship),
    operation('delete', '/ships/{ship_id}'),
    operation('get', '/v1/hulls/{ship_id}/planks'),
    operation('get', '/ships/{ship_id}/crew/{sailor_id}'),
  ]
  const links = linksOf(operations, 'post /ships')!
  expect(Object.keys(links)).toEqual([
    'get /ships/{ship_id}',
    'delete /ships/{ship_id}',
    'get /v1/hulls/{ship_id}/planks',
  ])
  expect(links['get /ships/{ship_id}']!.parameters).toEqual({ ship_id: '$response.body#/id' })
  expect(linksOf(operations, 'get /ships/{ship_id}')).toBeUndefined()
})

it('the parameters of a creation are passed on', () => {
  const operations = [
    operation('post', '/ships/{ship_id}/keys', Key),
    operation('get', '/ships/{ship_id}/keys/{key_id}', Key),
  ]
  const [link] = Object.values(linksOf(operations, 'post /ships/{ship_id}/keys')!)
  expect(link!.parameters).toEqual({ ship_id: '$request.path.ship_id', key_id: '$response.body#/id' })
})

it('things of two kinds whose parameters have the same name are told apart', () => {
  const operations = [
    operation('post', '/ships/keys', Key),
    operation('get', '/ships/keys/{key_id}', Key),
    operation('post', '/docks/keys', Ship),
    operation('get', '/docks/keys/{key_id}', Ship),
  ]
  expect(targetsOf(operations, 'post /ships/keys')).toEqual(['get /ships/keys/{key_id}'])
  expect(targetsOf(operations, 'post /docks/keys')).toEqual(['get /docks/keys/{key_id}'])
})

it('a thing that another path creates is found by its reply, and a member by its name', () => {
  const operations = [
    operation('get', '/ships/{ship_id}', Ship),
    operation('post', '/yards', Ship),
    operation('put', '/yards/share', z.object({ share_token: z.string(), name: z.string() })),
    operation('get', '/public/{share_token}'),
    operation('get', '/people/{name}'),
  ]
  expect(targetsOf(operations, 'post /yards')).toEqual(['get /ships/{ship_id}'])
  expect(targetsOf(operations, 'put /yards/share')).toEqual(['get /public/{share_token}'])
})
