// Words that say nothing about what a text is about: those of English sentences, and of the JSON of messages.
const ENGLISH = `
a about after again all also am an and any are as at be because been before being below between both but by can cannot
could did do does doing don down during each few for from further get got had has have having he her here hers him his
how i if in into is it its just let like ll me more most my need no nor not now of off on once only or other our out
over own please re same she should so some such than thank thanks that the their them then there these they this those
through to too under until up us use very was we were what when where which while who whom why will with would you your
yours
`
const OF_MESSAGES = 'assistant content false human ai null role system text tool true type user'

export const STOP_WORDS: ReadonlySet<string> = new Set(`${ENGLISH} ${OF_MESSAGES}`.trim().split(/\s+/))
