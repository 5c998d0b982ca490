// The style of the API pages: one sheet for light, dark, wide and narrow.
export const style = `:root {
  color-scheme: light dark;
  --paper: light-dark(#ffffff, #101318);
  --side: light-dark(#f6f7f9, #151920);
  --card: light-dark(#f6f7f9, #171c24);
  --field: light-dark(#ffffff, #0d1014);
  --line: light-dark(#dfe3e8, #2a313c);
  --edge: light-dark(#8a94a3, #5d6878);
  --ink: light-dark(#1a2029, #e4e8ee);
  --soft: light-dark(#56606e, #a0aab8);
  --link: light-dark(#2f4bc4, #9db0ff);
  --tint: light-dark(#e9edfc, #20294a);
  --blue: light-dark(#1857b8, #7fb2ff);
  --green: light-dark(#17693a, #6fd598);
  --amber: light-dark(#8a5000, #f0b866);
  --red: light-dark(#b3261e, #ff9a92);
  --mono: ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace;
  font: 16px/1.6 system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', sans-serif;
  color: var(--ink);
  background: var(--paper);
  scroll-padding-top: 1rem;
}
*, ::before, ::after { box-sizing: border-box }
[hidden] { display: none !important }
body { margin: 0 }
h1, h2, h3, h4, p, ul, pre { margin: 0; padding: 0 }
ul { list-style: none }
a { color: var(--link); text-underline-offset: .2em }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; border-radius: 4px }
input { font-family: inherit }
code, pre, kbd, .name, .limits, textarea, input[data-in], select { font-family: var(--mono); font-size: .875em }
.bullets { list-style: disc; padding-left: 1.2rem; max-width: 44rem }
p code, .answer code, .bullets code { display: inline-block; max-width: 100%; padding: 0 .35em; border-radius: 4px; background: var(--tint); line-height: 1.5; overflow-wrap: anywhere }
summary { cursor: pointer }
.unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%) }
.skip { position: absolute; left: -99em; z-index: 2; padding: .5rem 1rem; background: var(--paper) }
.skip:focus { left: .5rem; top: .5rem }

header { background: var(--side); border-bottom: 1px solid var(--line); padding: .75rem 1rem; position: sticky; top: 0; z-index: 1; max-height: 100vh; overflow: hidden auto }
.brand { display: block; font-weight: 700; color: inherit; text-decoration: none }
.brand { float: left }
.menu > summary { text-align: right; line-height: 1.6rem; color: var(--link); font-size: .9rem }
.filter { position: relative; clear: both; margin: .75rem 0 }
.filter kbd { position: absolute; right: .6rem; top: .45rem; padding: 0 .4rem; border: 1px solid var(--line); border-radius: 4px; color: var(--soft) }
.filter input:focus + kbd { display: none }
nav h2 { margin: 1.1rem 0 .25rem; font-size: .8rem; font-weight: 600; color: var(--soft) }
nav a { display: flex; gap: .5rem; justify-content: space-between; align-items: center; padding: .25rem .6rem; margin: 0 -.6rem; border-radius: 6px; color: inherit; text-decoration: none; font-size: .9rem; line-height: 1.4 }
nav a:hover { background: var(--tint) }
nav a[aria-current] { background: var(--tint); color: var(--link); font-weight: 600 }
nav .method { font-size: .65rem }

main { padding: 1.5rem 1rem 40vh; max-width: 92rem; margin: 0 auto }
main > section { margin-bottom: 2.5rem; scroll-margin-top: 3rem }
main > section > p, main > section > form, .about > p { max-width: 44rem }
h1 { font-size: 2rem; line-height: 1.2; letter-spacing: -.02em }
.version { font-size: .9rem; font-weight: 400; letter-spacing: 0; color: var(--soft) }
main h2 { font-size: 1.35rem; line-height: 1.3; letter-spacing: -.01em }
h3 { font-size: 1.15rem; line-height: 1.35 }
h3 a { color: inherit; text-decoration: none }
h3 a:hover { text-decoration: underline }
h4 { margin-top: 1.5rem; font-size: .95rem }
p + p, h1 + p, h2 + p, p + .card, .card + p { margin-top: .75rem }
.group > h2 { padding-top: 2.5rem; border-top: 1px solid var(--line) }

.operation { display: grid; gap: 1.5rem; grid-template-columns: minmax(0, 1fr); padding: 2rem 0; scroll-margin-top: 2rem }
.operation + .operation { border-top: 1px solid var(--line) }
.route { margin: .5rem 0; overflow-wrap: anywhere }
.route code { display: inline; padding: 0; background: none }
.needs { font-size: .9rem; color: var(--soft) }
.method { font: 700 .72rem/1.5 var(--mono); letter-spacing: .02em; color: var(--soft) }
.get, .s3, .k { color: var(--blue) } .post, .s2, .v { color: var(--green) } .put, .patch, .s4, .n { color: var(--amber) } .delete, .s5 { color: var(--red) }
.route .method { padding: .2rem .45rem; border-radius: 4px; margin-right: .25rem; background: color-mix(in srgb, currentColor 12%, transparent) }

.fields > li { padding: .6rem 0; border-top: 1px solid var(--line) }
.fields > li:first-child { border-top: 0 }
.fields p { font-size: .92rem; margin-top: .15rem; max-width: 44rem }
.fields details { margin-top: .35rem }
.fields .fields, details > .fields { padding-left: .9rem; border-left: 2px solid var(--line); margin-top: .25rem }
.fields summary, .answers summary { font-size: .9rem }
.fields summary { color: var(--link) }
.field { display: flex; flex-wrap: wrap; gap: .1rem .6rem; align-items: baseline }
.name, .choice { font-weight: 600; overflow-wrap: anywhere }
.type, .note { font-size: .85rem; font-weight: 400; color: var(--soft) }
.required, .deprecated { font-size: .8rem; font-weight: 400; color: var(--amber) }
.limits { display: flex; flex-wrap: wrap; gap: .1rem .5rem; margin-top: .15rem; color: var(--soft) }
.limits li { overflow-wrap: anywhere }
.limits li:not(:last-child)::after { content: ' ·' }
.answers > li { padding: .45rem 0; border-top: 1px solid var(--line); font-size: .95rem }
.answers > li:first-child { border-top: 0 }
.answers .bullets { font-size: .92rem }
.errors { padding-top: .45rem; border-top: 1px solid var(--line); font-size: .95rem }
.errors .answers { padding: .35rem 0 0 1rem }
.answers details > :not(summary) { margin-top: .5rem }
.status { font: 700 .85rem/1.5 var(--mono); margin-right: .5rem }
.schema { border-bottom: 1px solid var(--line); padding: .6rem 0; scroll-margin-top: 3rem }
.schema > summary { font-weight: 600 }

.card, .try { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 1rem }
.card { display: grid; gap: .75rem }
.card label, .try label { display: block; margin-top: .6rem; font-size: .875rem; font-weight: 600 }
.card label, .try > label:first-child { margin-top: 0 }
.try { align-self: start; min-width: 0 }
input, select, textarea { width: 100%; padding: .4rem .6rem; border: 1px solid var(--edge); border-radius: 6px; background: var(--field); color: inherit; font-size: .9rem; line-height: 1.5 }
textarea { resize: vertical; display: block }
::placeholder { color: var(--soft); opacity: 1 }
:user-invalid { border-color: var(--red) }
.line { display: flex; gap: .5rem }
button { padding: .3rem .75rem; border: 1px solid var(--edge); border-radius: 6px; background: var(--field); color: inherit; font: inherit; font-size: .85rem; cursor: pointer }
button:hover { border-color: var(--ink) }
.send { display: flex; gap: .75rem; align-items: center; margin-top: .9rem }
.send:first-child { margin-top: 0 }
.primary { padding: .4rem 1.5rem; border-color: transparent; background: var(--link); color: var(--paper); font-weight: 600; font-size: .95rem }
.primary.danger { background: var(--red) }
pre { overflow: auto; max-height: 30rem; padding: .75rem; font-size: .8rem; line-height: 1.55; white-space: pre; tab-size: 2 }
details > pre { background: var(--card); border-radius: 6px }
.code { margin-top: 1rem; border: 1px solid var(--line); border-radius: 8px; background: var(--field); overflow: hidden }
.code pre:not([data-show=curl]) { white-space: pre-wrap; overflow-wrap: anywhere }
.code details > pre { background: none; padding-top: .25rem }
.code details { border-bottom: 1px solid var(--line) }
.code details:not([open]) { padding-bottom: .4rem }
.code summary { padding: .4rem .75rem 0; font-size: .85rem; color: var(--soft) }
.bar { display: flex; justify-content: space-between; align-items: center; min-height: 2.4rem; padding: .25rem .4rem .25rem .75rem; border-bottom: 1px solid var(--line); font-size: .85rem; color: var(--soft) }

@media (min-width: 60rem) {
  body { display: grid; grid-template-columns: 17.5rem minmax(0, 1fr) }
  header { height: 100vh; border: 0; border-right: 1px solid var(--line); padding: 1.25rem 1.4rem }
  .brand { float: none }
  .menu > summary { display: none }
  main { padding: 2.5rem 2.5rem 60vh; margin: 0 }
  .operation { scroll-margin-top: -1rem }
}
@media (min-width: 78rem) {
  .operation { grid-template-columns: minmax(0, 1fr) minmax(0, 29rem); gap: 3rem }
  .try { position: sticky; top: 1.5rem; max-height: calc(100vh - 3rem); overflow-y: auto }
}
`
