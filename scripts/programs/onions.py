# Makes so many onion services through the control port 9151 of Tor, asks for what it knows, and
# removes them. Prints sums of the answers.
import base64
import hashlib
import socket
import sys

count = int(sys.argv[1])
control = socket.create_connection(("127.0.0.1", 9151)).makefile("rw", newline="\r\n")


def ask(command):
    control.write(command + "\n")
    control.flush()
    lines, inside = [], False
    while True:
        line = control.readline().rstrip("\r\n")
        lines.append(line)
        if inside:
            inside = line != "."
        elif line[3] == "+":
            inside = True
        elif line[3] == " ":
            if not line.startswith("250"):
                raise SystemExit(f"{command}: {line}")
            return lines


def key(at):
    raw = bytearray(hashlib.sha512(b"stone %d" % at).digest())
    raw[0] &= 248
    raw[31] = raw[31] & 63 | 64
    return base64.b64encode(raw).decode()


ask("AUTHENTICATE")
names = hashlib.md5(repr(ask("GETINFO config/names")).encode()).hexdigest()
services = []
for at in range(count):
    answer = ask(f"ADD_ONION ED25519-V3:{key(at)} Flags=Detach Port=80,127.0.0.1:{1000 + at}")
    services.append(answer[0].split("ServiceID=")[1])
listed = [line for line in ask("GETINFO onions/detached") if len(line) >= 56]
for turn in range(20):
    policy = ",".join(f"reject 10.{turn}.{at}.0/24" for at in range(100))
    ask(f'SETCONF ExitPolicy="{policy}"')
    asked = ask("GETCONF ExitPolicy")
    ask("GETINFO config-text")
    ask("GETINFO config/defaults")
ask("RESETCONF ExitPolicy")
for service in services:
    ask(f"DEL_ONION {service}")
print(names, len(listed), len(asked), hashlib.md5("".join(services).encode()).hexdigest())
control.close()
