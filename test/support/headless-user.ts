// A person who signs in without a screen and agrees to everything.

/** Follows redirects and submits forms until it gets to an address that starts with `home`. */
export async function completeSignIn(address: string, home: string, login = 'ada'): Promise<string> {
  const jar = new Map<string, string>()
  let next: { url: string; form?: URLSearchParams } = { url: address }
  for (let steps = 0; steps < 20; steps++) {
    if (next.url.startsWith(home)) return next.url
    const response = await fetch(next.url, {
      redirect: 'manual',
      headers: { Cookie: [...jar].map(([name, value]) => `${name}=${value}`).join('; ') },
      ...(next.form && { method: 'POST', body: next.form }),
    })
    for (const cookie of response.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(cookie)!
      jar.set(name!, value!)
    }
    const location = response.headers.get('Location')
    const text = await response.text()
    if (location) next = { url: new URL(location, next.url).href }
    else {
      const action = /action="([^"]+)"/.exec(text)?.[1]
      const prompt = /name="prompt" value="([^"]+)"/.exec(text)?.[1]
      if (!action || !prompt) throw new Error(`No way on from ${next.url}: ${response.status} ${text.slice(0, 2000)}`)
      next = { url: new URL(action, next.url).href, form: new URLSearchParams({ prompt, login, password: 'x' }) }
    }
  }
  throw new Error('More than 20 steps without getting home')
}
