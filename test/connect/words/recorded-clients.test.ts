// Requests of published clients from the trial `published-clients`, sent again: a change that breaks one shows here.
import { describe, expect, it } from 'vitest'
import { newTenant, startApp } from '../../support/app.ts'
import recorded from '../../support/recorded-sessions.json' with { type: 'json' }
import { type RecordedSessions, replaySession } from '../../support/recorded-sessions.ts'

const { recorded_at, sessions } = recorded as RecordedSessions

describe('published clients', () => {
  it.each(sessions.map(session => [session.client, session] as const))('%s', async (_, session) => {
    const settings = { CONTRACT_WORDS: 'langgraph', SLIPWAY_MODE: session.mode }
    const app = startApp({ settings })
    const { key } = await newTenant({ app })
    const outcomes = await replaySession(session, recorded_at, key, request => app.fetch(request))
    expect(outcomes.length).toBeGreaterThan(2)
    for (const { request, status, members, text } of outcomes) {
      const route = `${request.method} ${request.path}`
      expect([route, status, status === request.status ? '' : text]).toEqual([route, request.status, ''])
      expect(members ?? [], route).toEqual(expect.arrayContaining(request.members ?? []))
    }
  })
})
