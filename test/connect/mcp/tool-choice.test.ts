// A description says when to use its tool: the words of people's requests lead to it. A model knows more than words, so
// a tool that words alone find is one that a model finds.
import { beforeAll, describe, expect, it } from 'vitest'
import { newTenant } from '../../support/app.ts'
import { connectMcp } from '../../support/mcp.ts'

type Tool = { name: string; title: string; description: string }

const REQUESTS: [request: string, tool: string][] = [
  ['Which workspaces do I have?', 'whoami'],
  ['What may this key do here?', 'whoami'],
  ['Show me all deployments and their URLs', 'find_deployments'],
  ['Is any deployment failing at the moment?', 'find_deployments'],
  ['Why does shop not serve its latest revision?', 'get_deployment'],
  ['What is the configuration of shop?', 'get_deployment'],
  ['Which revisions of shop failed, and why?', 'list_revisions'],
  ['When was each commit deployed, and by whom?', 'list_revisions'],
  ['Compare revision 3 with revision 4', 'compare_revisions'],
  ['What changed since the revision that worked?', 'compare_revisions'],
  ['The build failed. Show its log', 'read_logs'],
  ['Find the errors that shop logs while it runs', 'read_logs'],
  ['Who changed the settings of this workspace yesterday?', 'list_events'],
  ['What happened in the last hour?', 'list_events'],
  ['Which pull requests wait for approval?', 'list_previews'],
  ['Where is the preview of pull request 7?', 'list_previews'],
  ['Make a preview of this branch', 'make_preview'],
  ['Delete the preview of pull request 7', 'delete_preview'],
  ['Which templates are there to start from?', 'list_templates'],
  ['Which repositories of our git host are connected?', 'list_repositories'],
  ['Deploy this repository', 'plan_change'],
  ['Roll back shop to revision 3', 'plan_change'],
  ['Set an environment variable of shop', 'plan_change'],
  ['Redeploy shop', 'plan_change'],
  ['Yes, apply that plan', 'apply_plan'],
  ['Approve the commit of this fork', 'approve_preview'],
  ['Stop the revision that is being built', 'interrupt_revision'],
  ['Promote the canary of shop', 'change_rollout'],
  ['Pause the rollout', 'change_rollout'],
  ['Can the API do something about webhooks?', 'search_api'],
  ['Read the answer of the GET operation listWebhooks', 'read_api'],
]

const STOP_WORDS = new Set(
  'a an and any are as at be been by can do does each for has have here i in is it its'.split(' '),
)
for (const word of 'me my not of on or our that the there this to was what when where which while who with'.split(' '))
  STOP_WORDS.add(word)
/** Plurals and tenses without their endings. */
const stem = (word: string) => word.replace(/(ies|es|s|ed|ing|y|e)$/, '')
const wordsOf = (text: string): string[] =>
  text
    .toLowerCase()
    .split(/[^a-z]+/)
    .filter(word => word && !STOP_WORDS.has(word))
    .map(stem)

let tools: Tool[]
beforeAll(async () => {
  tools = await connectMcp((await newTenant()).key).listTools()
})

/** The tools in the order in which the words of a request lead to them. A word that few tools have counts more. */
function rank(request: string): string[] {
  const texts = tools.map(({ name, title, description }) => new Set(wordsOf(`${name} ${title} ${description}`)))
  const weightOf = (word: string) => 1 / texts.filter(text => text.has(word)).length
  const scoreOf = (text: Set<string>) =>
    [...new Set(wordsOf(request))].reduce((score, word) => score + (text.has(word) ? weightOf(word) : 0), 0)
  return tools
    .map(({ name }, i) => ({ name, score: scoreOf(texts[i]!) }))
    .filter(({ score }) => score > 0)
    .sort((a, b) => b.score - a.score)
    .map(({ name }) => name)
}

describe('the tools of an Admin', () => {
  it.each(REQUESTS)('“%s” leads to %s', (request, tool) => {
    expect(rank(request).slice(0, 2)).toContain(tool)
  })

  it('each have a request', () => {
    expect(new Set(REQUESTS.map(([, tool]) => tool))).toEqual(new Set(tools.map(({ name }) => name)))
  })

  it('name only tools that exist', () => {
    const names = new Set(tools.map(({ name }) => name))
    for (const { name, description } of tools)
      for (const [, named = ''] of description.matchAll(/`([a-z]+_[a-z_]+)`/g))
        if (!named.startsWith('internal_') && named !== 'plan_digest')
          expect(names, `${name}: ${named}`).toContain(named)
  })
})
