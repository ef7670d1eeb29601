# Four users, each with so many messages, over IMAP on port 10143. Prints what they found.
import hashlib
import imaplib
import sys
from concurrent.futures import ThreadPoolExecutor

count = int(sys.argv[1])


def call(answer):
    kind, data = answer
    if kind != "OK":
        raise SystemExit(f"{kind}: {data}")
    return data


def use(user):
    box = imaplib.IMAP4("127.0.0.1", 10143)
    call(box.login(user, "x"))
    for name in ("stones", "old"):
        if box.select(name)[0] == "OK":
            box.unselect()
            call(box.delete(name))
        call(box.create(name))
    call(box.select("stones"))
    for at in range(count):
        text = "".join(f"line {line} of {at}: {'stone ' * (line % 9)}\r\n" for line in range(60))
        head = f"From: {user}@test\r\nTo: all@test\r\nSubject: stone {at % 17}\r\n\r\n"
        call(box.append("stones", None, imaplib.Time2Internaldate(1700000000 + at),
                        (head + text).encode()))
    call(box.noop())
    found = hashlib.md5()
    for what in ("SUBJECT", '"stone 7"'), ("BODY", '"line 5 of 3"'), ("LARGER", "3000"):
        found.update(call(box.search(None, *what))[0])
    shapes = call(box.fetch("1:*", "(FLAGS RFC822.SIZE ENVELOPE BODYSTRUCTURE)"))
    found.update(repr(shapes).encode())
    found.update(repr(call(box.fetch("1:*", "(BODY.PEEK[])"))).encode())
    found.update(call(box.thread("REFERENCES", "UTF-8", "ALL"))[0])
    call(box.copy(f"1:{count // 2}", "old"))
    call(box.store(f"1:{count // 2}", "+FLAGS", r"(\Deleted)"))
    call(box.expunge())
    found.update(call(box.status("stones", "(MESSAGES UNSEEN)"))[0])
    found.update(call(box.status("old", "(MESSAGES)"))[0])
    call(box.close())
    box.logout()
    return user, found.hexdigest()


with ThreadPoolExecutor(4) as pool:
    for user, found in pool.map(use, ("ann", "ben", "cid", "dot")):
        print(user, found)
