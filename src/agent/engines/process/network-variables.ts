// The proxy and the certificates of this machine, in the variables that the tools of all languages read. Pure.

type Variables = Record<string, string>

/** Each names a file with all certificates that are trusted. The one of NODE_EXTRA_CA_CERTS has only some. */
const BUNDLES = ['SSL_CERT_FILE', 'CURL_CA_BUNDLE', 'REQUESTS_CA_BUNDLE', 'PIP_CERT']
/** uv, Cargo, Go, gem and mise read SSL_CERT_FILE. */
const READERS_OF_BUNDLES = [...BUNDLES, 'NODE_EXTRA_CA_CERTS', 'DENO_CERT', 'GIT_SSL_CAINFO']

/** Adds what follows from the variables that are set. Those win. */
export function spreadNetworkVariables(env: Variables): Variables {
  const bundle = BUNDLES.map(name => env[name]).find(Boolean)
  const certificates = bundle ? Object.fromEntries(READERS_OF_BUNDLES.map(name => [name, bundle])) : {}
  return { ...certificates, ...proxyVariables(env), ...env }
}

function proxyVariables(env: Variables): Variables {
  const [http, https, none] = ['http_proxy', 'https_proxy', 'no_proxy'].map(
    name => env[name] || env[name.toUpperCase()],
  )
  if (!http && !https) return {}
  const inBothCases = Object.entries({ http_proxy: http, https_proxy: https, no_proxy: none }).flatMap(
    ([name, value]) => (value ? [name, name.toUpperCase()].map(either => [either, value]) : []),
  )
  const java = javaOptions({ http, https, none })
  return {
    ...Object.fromEntries(inBothCases),
    // Yarn 2 and later, and the programs of Java, read no other variables.
    ...(http && { YARN_HTTP_PROXY: http }),
    ...(https && { YARN_HTTPS_PROXY: https }),
    ...(java && { MAVEN_OPTS: java, GRADLE_OPTS: java }),
  }
}

type Proxies = Record<'http' | 'https' | 'none', string | undefined>

/** A user and a password of a proxy stay out of these: they would be in the list of processes. */
function javaOptions({ http, https, none }: Proxies): string {
  const hosts = Object.entries({ http, https }).flatMap(([scheme, address]) => {
    const url = address ? URL.parse(address) : null
    const port = url && (url.port || (url.protocol === 'https:' ? '443' : '80'))
    return url ? [`-D${scheme}.proxyHost=${url.hostname}`, `-D${scheme}.proxyPort=${port}`] : []
  })
  const excluded = (none ?? '').split(',').flatMap(text => text.trim().replace(/^\./, '*.') || [])
  if (hosts.length === 0) return ''
  const exclusion = excluded.length > 0 ? [`-Dhttp.nonProxyHosts=${excluded.join('|')}`] : []
  // Maven since 3.9 does not use them by itself.
  return [...hosts, ...exclusion, '-Daether.connector.http.useSystemProperties=true'].join(' ')
}
