// Clusters of texts by their words: what is alike is together, and the same texts have the same clusters to the byte.
import { describe, expect, it } from 'vitest'
import { buildTextTree as growTextTree } from '../../../src/tracing/insights/lexical-tree.ts'
import { runAtOnce } from '../../support/sliced-work.ts'

const buildTextTree = (...input: Parameters<typeof growTextTree>) => runAtOnce(growTextTree(...input))

const TOPICS = [
  ['invoice', 'refund', 'payment', 'charged', 'amount', 'card'],
  ['password', 'login', 'account', 'reset', 'email', 'locked'],
  ['parcel', 'delivery', 'courier', 'tracking', 'address', 'arrived'],
  ['crash', 'error', 'screen', 'update', 'version', 'phone'],
]

/** Each text has words of its topic and words that all topics share. */
function makeTexts(count: number): string[] {
  let random = 1
  const pick = (words: string[]) => {
    random = (random * 48_271) % 2_147_483_647
    return words[random % words.length]!
  }
  const shared = ['please', 'today', 'problem', 'question', 'since', 'still', 'again', 'customer']
  return Array.from({ length: count }, (_, i) =>
    Array.from({ length: 12 }, (_, n) => pick(n % 2 ? shared : TOPICS[i % TOPICS.length]!)).join(' '),
  )
}

describe('texts', () => {
  it('on one topic are in one cluster, named by its words', () => {
    const { clusters, clusterOf } = buildTextTree(makeTexts(80), 'seed', [4], null)
    expect(clusters).toHaveLength(4)
    for (const [i, id] of clusterOf.entries()) {
      expect(id, String(i)).toBe(clusterOf[i % 4])
      const { name } = clusters.find(cluster => cluster.id === id)!
      for (const word of name.split(', ')) expect(TOPICS[i % 4]).toContain(word)
    }
  })

  it('have the same clusters each time, and others for another seed', () => {
    const build = (seed: string) => JSON.stringify(buildTextTree(makeTexts(300), seed, [20, 5], null))
    expect(build('a')).toBe(build('a'))
    expect(build('a')).not.toBe(build('b'))
  })

  it('are in clusters of clusters, each in one above', () => {
    const { clusters, clusterOf } = buildTextTree(makeTexts(120), 'seed', [12, 4, 2], null)
    const byId = new Map(clusters.map(cluster => [cluster.id, cluster]))
    for (const { level, parent_id } of clusters)
      expect(parent_id === null ? 2 : byId.get(parent_id)!.level - 1).toBe(level)
    for (const id of clusterOf) expect(byId.get(id)!.level).toBe(0)
  })

  it('go to the given categories that share words with them, or to others', () => {
    const partitions = { Billing: 'invoice refund payment', Access: 'password login account' }
    const { clusters, clusterOf } = buildTextTree(makeTexts(40), 'seed', [4, 2], partitions)
    const byId = new Map(clusters.map(cluster => [cluster.id, cluster]))
    const tops = clusterOf.map(id => byId.get(byId.get(id)!.parent_id!)!)
    expect(tops.slice(0, 4).map(({ name }) => name)).toEqual(['Billing', 'Access', 'Other', 'Other'])
    expect(tops[0]).toMatchObject({ level: 1, description: partitions.Billing })
    const alone = buildTextTree(makeTexts(4), 'seed', [3], partitions)
    const names = alone.clusterOf.map(id => alone.clusters.find(cluster => cluster.id === id)!.name)
    expect(names).toEqual(['Billing', 'Access', 'Other', 'Other'])
  })

  it.each([
    [[''], 1],
    [['', ''], 1],
    [['same', 'same', 'same'], 1],
    [['one', 'two'], 2],
    [['日本語の質問です', '日本語の質問です', 'данные не пришли'], 2],
  ])('such as %j have %i clusters', (texts, count) => {
    const { clusters, clusterOf } = buildTextTree(texts, 'seed', [5], null)
    expect(new Set(clusterOf).size).toBe(count)
    expect(clusters).toHaveLength(count)
    for (const { name } of clusters) expect(name).not.toBe('')
  })

  it('by the thousand take less than a second', () => {
    const texts = makeTexts(1000).map(text => `${text} `.repeat(20))
    const before = process.cpuUsage()
    buildTextTree(texts, 'seed', [30, 6], null)
    const { user, system } = process.cpuUsage(before)
    expect((user + system) / 1000).toBeLessThan(1000)
  })

  it('are worked on in small steps, however many there are', () => {
    const text = 'w'.repeat(2).concat(' ').repeat(10)
    const texts = makeTexts(300).map(one => `${one} ${text}`.repeat(60))
    let most = 0
    runAtOnce(growTextTree(texts, 'seed', [100, 100, 5], null), operations => {
      most = Math.max(most, operations)
    })
    expect(most).toBeGreaterThan(0)
    expect(most).toBeLessThan(2_000_000)
  })
})
