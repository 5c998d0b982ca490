// A page that is the same for everyone, whose script is beside it and asks the API for its contents.
import type { Env, Hono } from 'hono'
import { renderScriptPage, scriptPageHeaders } from '../../kernel/pages/html-page.ts'
import { serveStaticPage } from '../../kernel/pages/static-page.ts'

export function serveScriptPage<E extends Env>(
  app: Hono<E>,
  path: string,
  title: string,
  content: string,
  script: string,
) {
  const scriptPath = `${path}/page.js`
  const createPage = async () =>
    serveStaticPage(
      'text/html; charset=utf-8',
      () => renderScriptPage(title, content, scriptPath),
      await scriptPageHeaders(),
    )
  let page: ReturnType<typeof createPage> | undefined
  app.get(path, async c => {
    page ??= createPage()
    return (await page)(c)
  })
  app.get(
    scriptPath,
    serveStaticPage('text/javascript; charset=utf-8', () => script),
  )
}
